import { extname } from 'node:path';

/**
 * Locates the files that this program reads or starts at run time. Sources run from `src/`. The
 * bundle has its code and these files in one folder (rolldown.config.ts). Other modules must not
 * build a path from their own location.
 */
const isBundled = extname(import.meta.filename) === '.js';
const root = new URL(isBundled ? './' : '../../', import.meta.url);

/** Folder of the numbered SQL migrations. */
export const migrationsFolder = new URL('migrations/', root);
/** Folder of the style of all pages. */
export const styleFolder = new URL(isBundled ? 'style/' : 'src/core/style/', root);
/** Folder of the script and icon of the admin pages. */
export const assetsFolder = new URL(isBundled ? 'assets/' : 'src/serve/admin/assets/', root);
/** Folder of the script of the sandbox's page. */
export const sandboxAssetsFolder = new URL(
  isBundled ? 'sandbox-assets/' : 'src/sandbox/page/assets/',
  root,
);

/** Programs that run in a separate process or thread. */
export const programs = {
  main: new URL(isBundled ? 'main.js' : 'src/cli/main.ts', root),
  checker: new URL(isBundled ? 'checker.js' : 'src/push/check-program.ts', root),
  postgresHost: new URL(isBundled ? 'postgres-host.js' : 'src/cli/demo/postgres-host.ts', root),
} as const;
