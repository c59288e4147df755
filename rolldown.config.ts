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

/**
 * Keeps the code of a worker small in memory. All but ASCII characters become escapes: Node keeps
 * code with any other character with two bytes for each character. Packages lose their source maps,
 * which Node reads together with the code.
 */
const saveMemory: Plugin = {
  name: 'save-memory',
  generateBundle: (_options, bundle) => {
    for (const file of Object.values(bundle)) {
      if (file.type !== 'chunk') continue;
      file.code = escapeWide(file.code);
      if (!file.moduleIds.every(isOfPackage)) continue;

      file.code = file.code.replace(/\n\/\/# sourceMappingURL=.*\s*$/, '\n');
      delete bundle[`${file.fileName}.map`];
    }
  },
};

const escapeWide = (code: string) =>
  code.replaceAll(
    /[^\0-\x7f]/g,
    (character) => String.raw`\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );

const isOfPackage = (moduleId: string) => moduleId.includes('node_modules');

/** Returns the name of the package of a module, which becomes the name of its file. */
const readPackageName = (moduleId: string) =>
  /.*node_modules\/(?:@([^/]+)\/)?([^/]+)/.exec(moduleId)?.slice(1).filter(Boolean).join('-');

export default defineConfig({
  cwd: import.meta.dirname,
  input: {
    main: 'src/cli/main.ts',
    checker: 'src/push/check-program.ts',
    'postgres-host': 'src/cli/demo/postgres-host.ts',
  },
  platform: 'node',
  external,
  // A warning here is a part that would fail at run time.
  onLog: (level, log, write) => write(level === 'warn' ? 'error' : level, log),
  plugins: [copyFiles, saveMemory],
  output: {
    dir: 'dist',
    cleanDir: true,
    format: 'esm',
    entryFileNames: '[name].js',
    chunkFileNames: '[name]-[hash].js',
    codeSplitting: {
      groups: [{ name: readPackageName, test: isOfPackage, debugName: 'packages' }],
    },
    sourcemap: true,
    sourcemapExcludeSources: true,
    sourcemapIgnoreList: /node_modules/,
    comments: { legal: true, annotation: false, jsdoc: false },
  },
});
