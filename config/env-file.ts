import { ConfigError, describeFileError } from './config-error.ts';

/**
 * Adds the NAME=value lines of a file to the environment. Variables that are set already are kept.
 * @throws ConfigError if the file cannot be read
 */
export function loadEnvFile(file: string): void {
  try {
    process.loadEnvFile(file);
  } catch (cause) {
    throw new ConfigError([`--env-file: ${file} cannot be read: ${describeFileError(cause)}`]);
  }
}
