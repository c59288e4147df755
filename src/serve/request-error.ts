import { CodedError } from '../core/errors.ts';
import { readOnlyRemedy } from '../core/library-messages.ts';
import { isDatabaseAway, isLoginRefused, isWriteRefused } from '../db/is-unreachable.ts';
import { isDiskFull, readSqlState } from '../db/transaction.ts';

/** A request that is refused. The message says why, in words for the sender. */
export class RequestError extends CodedError {
  readonly status: number;
  /** Further members of a problem document. */
  readonly members: Readonly<Record<string, unknown>>;
  readonly headers: Readonly<Record<string, string>>;
  constructor(status: number, message: string, members = {}, headers = {}) {
    super('request_refused', message);
    this.status = status;
    this.members = members;
    this.headers = headers;
  }
}

/** Creates the error of a request without a right token. */
export const refuseToken = (words: string): RequestError =>
  new RequestError(401, words, {}, { 'www-authenticate': 'Bearer realm="fulfilment-sync"' });

/** Returns the header that says when a request may be sent again. */
export const toRetryAfter = (waitMs: number) => ({
  'retry-after': String(Math.ceil(waitMs / 1_000)),
});

/** Returns the error of a request that is refused. Throws others. */
export function catchRefusal(error: unknown): RequestError {
  if (error instanceof RequestError) return error;
  throw error;
}

/** Returns why the database cannot answer now; null if it is another error. */
export function describeTrouble(error: unknown): string | null {
  if (isDiskFull(error))
    return 'The disk of Postgres is full. Free space, or enlarge it; then the worker continues';
  if (isLoginRefused(error))
    return 'Postgres refuses the login of the worker. Correct DATABASE_URL, and restart the worker';
  if (isWriteRefused(error))
    return `The database takes no writes at present: ${readOnlyRemedy}. Then the worker continues`;
  if (isDatabaseAway(error))
    return 'The database cannot be reached; the worker continues when it is back. Try again later';
  return busyStates[readSqlState(error)] ?? null;
}

/** Words for a text that Postgres cannot store, in a request that it refused for that. */
export const nulWords = 'A value holds a NUL character, which Postgres cannot store';
export const holdsNul = (error: unknown): boolean => readSqlState(error) === '22021';

/** Words for what another session makes the database do, by SQLSTATE. */
const busyStates: Readonly<Record<string, string>> = {
  '55P03': 'Another session has locked a table or row that the request needs. Try again later',
  '57014': 'The database took too long for the request. Try again later',
  '40P01': 'The request and another session waited for each other. Try again',
  '40001': 'The request met a change of another session. Try again',
};
