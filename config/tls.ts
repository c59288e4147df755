import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createSecureContext } from 'node:tls';
import { describeFileError } from './config-error.ts';
import { parseConnectionUrl } from './values.ts';

/** Values of sslmode that pg knows. It ignores another value, and would connect without TLS. */
const sslModes = ['disable', 'prefer', 'require', 'verify-ca', 'verify-full', 'no-verify'];

/**
 * Finds problems of the settings of TLS before anything connects: Node ignores a file of
 * authorities that it cannot read, and pg fails late and without naming the setting.
 */
export function findTlsProblems(env: Readonly<Record<string, string | undefined>>): string[] {
  const problems: string[] = [];
  const attempt: Attempt = (setting, work, remedy) => {
    try {
      return work();
    } catch (error) {
      problems.push(`${setting} ${describeUnusable(error)}; ${remedy}`);
      return undefined;
    }
  };

  const { NODE_EXTRA_CA_CERTS: authorities, NODE_TLS_REJECT_UNAUTHORIZED: rejects } = env;
  if (rejects === '0')
    problems.push(
      'NODE_TLS_REJECT_UNAUTHORIZED: 0 switches off every check of certificates; unset it, ' +
        'and name the file of your certificate authority in NODE_EXTRA_CA_CERTS',
    );

  if (authorities !== undefined)
    attempt(
      `NODE_EXTRA_CA_CERTS: TLS: ${authorities}`,
      () => new X509Certificate(readFileSync(authorities)),
      'name a file of certificates in PEM form',
    );

  for (const name of ['DATABASE_URL', 'DATABASE_DIRECT_URL']) {
    const parameters = parseConnectionUrl(env[name] ?? '')?.searchParams;
    if (parameters !== undefined) checkDatabaseTls(`${name}: TLS:`, parameters, problems, attempt);
  }

  return problems;
}

/**
 * Returns the result of `work`, or undefined if it fails: then it adds the problem with its reason.
 */
type Attempt = <T>(setting: string, work: () => T, remedy: string) => T | undefined;

/** Finds problems of the parameters of a Postgres URL. `database` begins each of them. */
function checkDatabaseTls(
  database: string,
  parameters: URLSearchParams,
  problems: string[],
  attempt: Attempt,
): void {
  const before = problems.length;

  const mode = parameters.get('sslmode');
  if (mode !== null && !sslModes.includes(mode))
    problems.push(
      `${database} sslmode=${mode} does not exist; use verify-full, or disable on this machine`,
    );

  const [ca, cert, key] = ['sslrootcert', 'sslcert', 'sslkey'].map((name) => {
    const path = parameters.get(name);
    const remedy =
      path === 'system'
        ? 'leave sslrootcert out to trust the authorities of Node'
        : 'correct the path';
    return path
      ? attempt(`${database} ${name}=${path}`, () => readFileSync(path, 'utf8'), remedy)
      : undefined;
  });

  if (parameters.has('sslcert') !== parameters.has('sslkey'))
    problems.push(`${database} sslcert and sslkey belong together; set both or none of them`);

  if (problems.length > before) return;

  const connect = () => {
    if (ca !== undefined) new X509Certificate(ca);
    createSecureContext({ ...(ca && { ca }), ...(cert && { cert }), ...(key && { key }) });
  };

  const setting = `${database} sslrootcert, sslcert and sslkey do not fit:`;
  attempt(setting, connect, 'use PEM files, and the key of sslcert');
}

const describeUnusable = (error: unknown) => {
  if (error instanceof Error && 'reason' in error)
    return `cannot be used (${String(error.reason)})`;
  return `cannot be read (${describeFileError(error)})`;
};
