import { parseEnv } from 'node:util';
import { ConfigError, describeFileError } from './config-error.ts';
import { readTextFile } from './text-file.ts';

/**
 * Reads the NAME=value lines of a file.
 * @throws ConfigError if it cannot be read
 */
function readEnvFile(file: string): NodeJS.Dict<string> {
  try {
    return parseEnv(readTextFile(file));
  } catch (cause) {
    throw new ConfigError([`--env-file: ${file} cannot be read: ${describeFileError(cause)}`]);
  }
}

/**
 * Adds the NAME=value lines of a file to the environment. Variables that are set already are kept.
 * @throws ConfigError if the file cannot be read
 */
export function loadEnvFile(file: string): void {
  for (const [name, value] of Object.entries(readEnvFile(file))) process.env[name] ??= value;
}

/**
 * Prepares to read the environment again after its file has changed. Node itself adds the file of
 * `--env-file` before any of our code runs, so a variable that has the value of the file counts as
 * a variable of the file.
 * @param file undefined if there is no file
 * @returns a function that puts the file's present lines in place of the former ones, and returns
 *   what `read` makes of the environment. If anything throws, the environment stays as it was. It
 *   throws ConfigError if the file cannot be read.
 */
export function rememberEnvironment(file: string | undefined): <T>(read: () => T) => T {
  const inFile = file === undefined ? {} : readEnvFile(file);
  const own = Object.fromEntries(
    Object.entries(process.env).filter(([name, value]) => inFile[name] !== value),
  );

  return (read) => {
    const former = { ...process.env };
    try {
      replaceEnvironment({ ...(file === undefined ? {} : readEnvFile(file)), ...own });
      return read();
    } catch (error) {
      replaceEnvironment(former);
      throw error;
    }
  };
}

function replaceEnvironment(next: NodeJS.Dict<string>): void {
  for (const name of Object.keys(process.env).filter((name) => !(name in next)))
    delete process.env[name];
  Object.assign(process.env, next);
}
