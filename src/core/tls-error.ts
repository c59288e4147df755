import { CodedError } from './errors.ts';

/** Servers that a worker connects to by TLS. */
export type TlsServer = 'postgres' | 'redis' | 'service';

/** The cause of a failed TLS connection. */
type TlsFault =
  | 'expired'
  | 'name'
  | 'authority'
  | 'no_tls'
  | 'needs_tls'
  | 'client_certificate'
  | 'wrong_user'
  | 'other';

/** Codes of Node and OpenSSL by fault, the first that matches. */
const faultCodes: readonly (readonly [TlsFault, RegExp])[] = [
  ['expired', /^CERT_(HAS_EXPIRED|NOT_YET_VALID)$/],
  ['name', /^ERR_TLS_CERT_ALTNAME_INVALID$/],
  ['authority', /^(CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO_|HOSTNAME_MISMATCH)/],
  ['authority', /^(INVALID_CA|INVALID_PURPOSE|PATH_LENGTH_EXCEEDED)/],
  ['no_tls', /^ERR_SSL_(WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG|HTTP_REQUEST)$/],
  ['client_certificate', /_ALERT_(CERTIFICATE_|BAD_CERTIFICATE|UNSUPPORTED_CERTIFICATE)/],
  ['client_certificate', /_ALERT_(UNKNOWN_CA|HANDSHAKE_FAILURE|ACCESS_DENIED)/],
  ['other', /^ERR_(SSL|TLS|OSSL)_/],
];

/**
 * Words of pg and of Postgres by fault. They have no code of their own, and Postgres may speak
 * another language.
 */
const faultWords: readonly (readonly [TlsFault, RegExp])[] = [
  ['no_tls', /^The server does not support SSL connections$/],
  ['other', /^There was an error establishing an SSL connection$/],
  ['client_certificate', /connection requires a valid client certificate/],
  ['wrong_user', /certificate authentication failed for user/],
  ['needs_tls', /, (no encryption|SSL off)$/],
];

const serverNames: Readonly<Record<TlsServer, string>> = {
  postgres: 'Postgres',
  redis: 'Redis',
  service: 'the service',
};

const describeFault: Readonly<Record<TlsFault, (name: string) => string>> = {
  expired: (name) => `the certificate of ${name} has expired, or is not valid yet`,
  name: (name) => `the certificate of ${name} is for another host name`,
  authority: (name) =>
    `the certificate of ${name} is not accepted, because no known authority has signed it`,
  no_tls: (name) => `${name} does not speak TLS at this port`,
  needs_tls: (name) => `${name} may accept this machine only with TLS`,
  client_certificate: (name) => `${name} asks for a client certificate, or does not accept ours`,
  wrong_user: () =>
    'the common name of the client certificate is not the user name of DATABASE_URL',
  other: (name) => `no agreement on TLS with ${name}`,
};

const extraAuthority = 'name the file with the certificate of its authority in NODE_EXTRA_CA_CERTS';

/** Returns what to do about the faults that all servers share, by the name of their setting. */
const listRemedies = (setting: string): Readonly<Record<TlsFault, string>> => {
  const check = `check that ${setting} leads to the right server, and its versions of TLS`;
  return {
    expired:
      `renew the certificate of the server that ${setting} leads to, ` +
      'and check the clock of this machine',
    name:
      `use a host name of the certificate in ${setting}, ` +
      `or a certificate with the name of ${setting}`,
    authority: extraAuthority,
    ...{ no_tls: check, needs_tls: check, client_certificate: check },
    ...{ wrong_user: check, other: check },
  };
};

const remedies: Readonly<Record<TlsServer, Readonly<Record<TlsFault, string>>>> = {
  postgres: {
    ...listRemedies('DATABASE_URL'),
    authority: 'name the file with the certificate of its authority as sslrootcert in DATABASE_URL',
    no_tls:
      'set ssl = on in postgresql.conf; ' +
      'or sslmode=disable in DATABASE_URL if you trust the network between',
    needs_tls: 'add sslmode=verify-full to DATABASE_URL, or correct pg_hba.conf',
    client_certificate:
      'set sslcert and sslkey in DATABASE_URL ' +
      'to a certificate that ssl_ca_file of Postgres has signed',
    wrong_user:
      'use a certificate of that user as sslcert in DATABASE_URL, or map the name in pg_ident.conf',
  },
  redis: {
    ...listRemedies('REDIS_URL'),
    no_tls:
      'let REDIS_URL lead to the tls-port of Redis; ' +
      'or begin it with redis:// if you trust the network between',
    needs_tls: 'begin REDIS_URL with rediss://',
    client_certificate:
      'set tls-auth-clients no in redis.conf: REDIS_URL has a password instead of a certificate',
  },
  service: {
    ...listRemedies('the base URL (WAREHOUSE_BASE_URL)'),
    no_tls:
      'correct the port of the base URL (WAREHOUSE_BASE_URL), ' +
      'or begin it with http:// if that is meant',
    needs_tls: 'begin the base URL (WAREHOUSE_BASE_URL) with https://',
    client_certificate:
      'put a proxy that has a client certificate before the service, ' +
      'and name it in WAREHOUSE_BASE_URL',
  },
};

/** The error of a connection that TLS prevents. */
export class TlsError extends CodedError {
  constructor(server: TlsServer, fault: TlsFault, detail: string) {
    const inBrackets = detail === '' ? '' : ` (${detail})`;
    const message = `TLS: ${describeFault[fault](serverNames[server])}${inBrackets}`;
    super('tls_failed', message, { remedy: remedies[server][fault] });
  }
}

/**
 * Returns the error of a failed connection in words that name TLS, the setting and what to do.
 * Looks at the causes of the error, too.
 * @returns null if TLS did not cause the error
 */
export function findTlsError(error: unknown, server: TlsServer): TlsError | null {
  let current = error;
  for (let depth = 0; current instanceof Error && depth < 6; depth++) {
    if (current instanceof TlsError) return current;
    if (current instanceof AggregateError) return findTlsError(current.errors[0], server);

    const found = readTlsError(current, server);
    if (found !== null) return found;

    current = current.cause;
  }

  return null;
}

/** Returns the TLS error that one error means, without its causes; null if it means none. */
function readTlsError(error: Error, server: TlsServer): TlsError | null {
  const code = readCode(error);
  // A wrapper repeats the code of its cause, which says more.
  if (code !== '' && readCode(error.cause) === code) return null;

  const [byCode] = faultCodes.find(([, codes]) => codes.test(code)) ?? [];
  if (byCode !== undefined)
    return new TlsError(server, byCode, describeDetail(error, byCode, code));

  if (server !== 'postgres') return null;
  const [byWords] = faultWords.find(([, words]) => words.test(error.message)) ?? [];
  return byWords === undefined ? null : new TlsError(server, byWords, error.message);
}

const readCode = (error: unknown) =>
  error instanceof Error && 'code' in error ? String(error.code) : '';

/**
 * Returns the names of the certificate if it has another name, else OpenSSL's reason or the code.
 */
function describeDetail(error: Error, fault: TlsFault, code: string): string {
  if (fault === 'name') return error.message.replace(/^.*altnames: /, '').replace(/\.$/, '');
  return 'reason' in error && typeof error.reason === 'string' ? error.reason : code;
}
