import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createSecureContext } from 'node:tls';
import { describeFileError } from './config-error.ts';
import { parseConnectionUrl } from './values.ts';

/** Values of sslmode that pg knows. It ignores another value, and would connect without TLS. */
const sslModes = ['disable', 'prefer', 'require', 'verify-ca', 'verify-full', 'no-verify'];

/**
 * Finds problems of the settings of TLS before anything connects: Node ignores a file of authorities that it cannot read,
 * and pg fails late and without naming the setting.
 */
export function findTlsProblems(env: Readonly<Record<string, string | undefined>>): string[] {
  const { DATABASE_URL: databaseUrl, NODE_EXTRA_CA_CERTS: authorities } = env;
  const url = databaseUrl === undefined ? null : parseConnectionUrl(databaseUrl);
  return [
    ...(authorities === undefined ? [] : findAuthorityProblems(authorities)),
    ...(url === null ? [] : findDatabaseProblems(url.searchParams)),
  ].map(([setting = '', problem = '']) => `${setting}: TLS: ${problem}`);
}

type Problem = readonly [setting: string, problem: string];

function findAuthorityProblems(path: string): Problem[] {
  const setting = 'NODE_EXTRA_CA_CERTS';
  try {
    new X509Certificate(readFileSync(path));
    return [];
  } catch (error) {
    return [[setting, `${path} ${describeUnusable(error)}; name a file of certificates in PEM form`]];
  }
}

function findDatabaseProblems(parameters: URLSearchParams): Problem[] {
  const problems: Problem[] = [];
  const add = (problem: string) => problems.push(['DATABASE_URL', problem]);
  const mode = parameters.get('sslmode');
  if (mode !== null && !sslModes.includes(mode))
    add(`sslmode=${mode} does not exist; use verify-full, or disable on this machine`);
  const read = (name: string) => {
    const path = parameters.get(name);
    if (path === null || path === '') return undefined;
    try {
      return readFileSync(path, 'utf8');
    } catch (error) {
      const instead = path === 'system' ? 'leave sslrootcert out to trust the authorities of Node' : 'correct the path';
      add(`${name}=${path} ${describeUnusable(error)}; ${instead}`);
      return undefined;
    }
  };
  const [ca, cert, key] = [read('sslrootcert'), read('sslcert'), read('sslkey')];
  if (parameters.has('sslcert') !== parameters.has('sslkey'))
    add('sslcert and sslkey belong together; set both or none of them');
  if (problems.length > 0) return problems;
  try {
    if (ca !== undefined) new X509Certificate(ca);
    createSecureContext({ ...(ca && { ca }), ...(cert && { cert }), ...(key && { key }) });
  } catch (error) {
    add(
      `sslrootcert, sslcert and sslkey do not fit: ${describeUnusable(error)}; use PEM files, and the key of sslcert`,
    );
  }
  return problems;
}

const describeUnusable = (error: unknown) => {
  if (error instanceof Error && 'reason' in error) return `cannot be used (${String(error.reason)})`;
  return `cannot be read (${describeFileError(error)})`;
};
