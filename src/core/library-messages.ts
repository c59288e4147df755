/**
 * What libraries say, in plain words: Node, undici, pg, Postgres, ioredis and BullMQ. The code of
 * the error is kept beside the words, so that people can search for it.
 */

/** What to do about a database that takes no writes. */
export const readOnlyRemedy =
  'DATABASE_URL must lead to the primary, and default_transaction_read_only must be off';

/** Says that the database takes no writes, and what to do. */
export const readOnlyWords = `the database takes no writes at present; ${readOnlyRemedy}`;

/** Words by the code of an error: of a system call, of undici, or of Postgres (SQLSTATE). */
const wordsByCode: Readonly<Partial<Record<string, string>>> = {
  ECONNREFUSED: 'the connection is refused; nothing listens there, or a firewall refuses it',
  ECONNRESET: 'the other side has broken the connection',
  EPIPE: 'the other side has closed the connection',
  ETIMEDOUT: 'no answer came in time',
  EHOSTUNREACH: 'no network route leads to the host',
  EHOSTDOWN: 'the host is down',
  ENETUNREACH: 'no route leads to the network of the host',
  ENOTFOUND: 'the name of the host is not known',
  EAI_AGAIN: 'the name server does not answer',
  UND_ERR_CONNECT_TIMEOUT: 'no connection was made in time',
  UND_ERR_HEADERS_TIMEOUT: 'no answer came in time',
  UND_ERR_BODY_TIMEOUT: 'the answer was not complete in time',
  UND_ERR_SOCKET: 'the other side has broken the connection',
  '25006': readOnlyWords,
  '53100': 'the disk of Postgres is full',
  '53300': 'Postgres has no free connection (max_connections)',
  '57P01': 'Postgres has ended the connection, because it stops or an administrator wants it',
  '57P02': 'Postgres has ended the connection after a crash',
  '57P03': 'Postgres is starting or stopping',
};

/** Words by the beginning of a message. The drivers of Postgres and Redis give no code to these. */
const wordsByMessage: readonly (readonly [beginning: string, words: string])[] = [
  ['Connection terminated', 'the connection to Postgres broke'],
  ['timeout exceeded when trying to connect', 'no connection to Postgres was made in time'],
  ['Query read timeout', 'Postgres did not answer in time'],
  ['Connection is closed.', 'the connection to Redis broke'],
  ["Stream isn't writeable", 'Redis cannot be reached'],
  ['Reached the max retries per request limit', 'Redis cannot be reached'],
  ['Command timed out', 'Redis did not answer in time'],
  ['Socket timeout.', 'Redis did not answer in time'],
];

/** The members with which Node and the drivers say where a connection leads. */
interface ErrorPlace {
  readonly address?: string;
  readonly hostname?: string;
  readonly port?: number;
}

/** Returns an error of a library in plain words, with host and port if it names them; else null. */
export function describeLibraryError(error: Error): string | null {
  // Of a host with several addresses, the error of the first says enough.
  const first: unknown = error instanceof AggregateError ? error.errors[0] : null;
  const { code, message, address, hostname, port } = (
    first instanceof Error ? first : error
  ) as Error & ErrorPlace & { readonly code?: unknown };

  const host = address ?? hostname;
  const hostAndPort = port === undefined ? host : `${host}:${port}`;
  const place = host === undefined ? '' : `${hostAndPort}: `;

  const words = typeof code === 'string' ? wordsByCode[code] : undefined;
  if (words !== undefined) return `${place}${words} (${code})`;

  const known = wordsByMessage.find(([beginning]) => message.startsWith(beginning));
  return known === undefined ? null : `${place}${known[1]}`;
}
