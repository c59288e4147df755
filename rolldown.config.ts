/**
 * The bundle: what `bin`, the image and the end-to-end tests run. Loading 900 files one by one takes
 * most of the time that a command needs. Every part that a command imports when it first needs it
 * becomes a file of its own.
 */
import { cpSync } from 'node:fs';
import { defineConfig, type Plugin } from 'rolldown';

/** Packages that stay outside: they find their own files by path, or are native or optional. */
export const external = ['msgpackr-extract', 'pg-native'];

/** Puts the files that the program reads at run time beside its code (src/core/installation.ts). */
const copyFiles: Plugin = {
  name: 'copy-files',
  writeBundle: ({ dir }) => {
    cpSync(`${import.meta.dirname}/migrations`, `${dir}/migrations`, { recursive: true });
    cpSync(`${import.meta.dirname}/src/core/style`, `${dir}/style`, { recursive: true });
    cpSync(`${import.meta.dirname}/src/serve/admin/assets`, `${dir}/assets`, { recursive: true });
    cpSync(`${import.meta.dirname}/src/sandbox/page/assets`, `${dir}/sandbox-assets`, {
      recursive: true,
    });
  },
};

export default defineConfig({
  cwd: import.meta.dirname,
  input: {
    main: 'src/cli/main.ts',
    checker: 'src/push/checker.ts',
    'postgres-host': 'src/cli/demo/postgres-host.ts',
  },
  platform: 'node',
  external,
  // A warning here is a part that would fail at run time.
  onLog: (level, log, write) => write(level === 'warn' ? 'error' : level, log),
  plugins: [copyFiles],
  output: {
    dir: 'dist',
    cleanDir: true,
    format: 'esm',
    entryFileNames: '[name].js',
    chunkFileNames: '[name]-[hash].js',
    sourcemap: true,
    sourcemapExcludeSources: true,
    sourcemapIgnoreList: /node_modules/,
    comments: { legal: true, annotation: false, jsdoc: false },
  },
});
