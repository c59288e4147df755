import { parseEnv } from 'node:util';
import { ConfigError, describeFileError } from './config-error.ts';
import { isKnownVariable } from './env.ts';
import { readTextFile } from './text-file.ts';

/**
 * Reads the NAME=value lines of a file.
 * @throws ConfigError if it cannot be read, or if a value would be cut
 */
function readEnvFile(file: string): NodeJS.Dict<string> {
  let text: string;
  try {
    text = readTextFile(file);
  } catch (cause) {
    throw new ConfigError([`--env-file: ${file} cannot be read: ${describeFileError(cause)}`]);
  }

  const problems = findCutValues(text).map((problem) => `--env-file: ${file}, ${problem}`);
  if (problems.length > 0) throw new ConfigError(problems);
  return parseEnv(text);
}

/**
 * Finds variables of this program whose values Node would silently cut: at a #, or at a quotation
 * mark that ends the value too early or not in its line. The problems quote no value.
 */
function findCutValues(text: string): string[] {
  return text.split(/\r?\n/).flatMap((line, index) => {
    const [, name = '', blank = '', value = ''] =
      /^\s*(?:export\s+)?(\w+)\s*=(\s*)(.*)$/s.exec(line) ?? [];
    if (!isKnownVariable(name)) return [];

    const problem = findCut(value, blank === '');
    return problem === null ? [] : [`line ${index + 1}: ${name} ${problem}`];
  });
}

/** @param isAtSign true if the value begins directly behind the equals sign */
function findCut(value: string, isAtSign: boolean): string | null {
  const remedy = 'write the value in quotation marks that it does not contain, or into a file';

  if (/^["'`]/.test(value)) {
    const end = value.indexOf(value.charAt(0), 1);
    const rest = value.slice(end + 1).trim();
    const isWhole = end > 0 && (rest === '' || rest.startsWith('#'));
    return isWhole ? null : `would be cut at a quotation mark; ${remedy}`;
  }

  const sign = value.indexOf('#');
  const isComment = sign < 0 || (sign === 0 ? !isAtSign : /\s/.test(value.charAt(sign - 1)));
  return isComment ? null : `would be cut at its #; ${remedy}`;
}

/**
 * Adds the NAME=value lines of a file to the environment. Variables that are set already are kept.
 * @throws ConfigError if the file cannot be read
 */
export function loadEnvFile(file: string): void {
  for (const [name, value] of Object.entries(readEnvFile(file))) process.env[name] ??= value;
}

/** Variables that Node, Postgres, OpenTelemetry and the system read. */
const othersVariable = /^(NODE_|OTEL_|PG[A-Z]+$|LC_|(TZ|LANG|PATH|HOME|TMPDIR|HOSTNAME)$)/;

/**
 * Returns the names in the file of `--env-file` that nobody reads: probably they are misspelt.
 * @param file undefined if there is no file
 * @throws ConfigError if it cannot be read
 */
export const findUnreadNames = (file: string | undefined): string[] =>
  Object.keys(file === undefined ? {} : readEnvFile(file)).filter(
    (name) => !isKnownVariable(name) && !othersVariable.test(name),
  );

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
