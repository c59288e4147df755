/**
 * This folder: pure functions: errors, retries, time, JSON, and the outcomes of attempts. Nothing
 * here reads a clock, a file or a database.
 */

import type { ErrorCode } from './error-codes.ts';
import { describeLibraryError } from './library-messages.ts';
import { quote } from './quote.ts';

interface CodedErrorOptions extends ErrorOptions {
  readonly remedy?: string;
}

/** An error with a stable `code`. Logs, sync.runs and scripts may rely on the code. */
export class CodedError extends Error {
  readonly code: ErrorCode;
  /** What to do. `describeError` shows it behind the message. */
  readonly remedy: string | undefined;

  constructor(code: ErrorCode, message: string, options?: CodedErrorOptions) {
    super(message, options);
    this.name = new.target.name;
    this.code = code;
    this.remedy = options?.remedy;
  }
}

/**
 * The effect of a failed request at the service.
 * `not_executed`: the service did not carry it out; sending it later is safe.
 * `unknown`: the service may have carried it out.
 * `refused`: the service refused it, and will refuse the same request again.
 */
export type Outcome = 'not_executed' | 'unknown' | 'refused';

export interface WarehouseErrorDetails extends ErrorOptions {
  readonly outcome: Outcome;
  /** HTTP status of the answer; undefined without an answer. */
  readonly status?: number | undefined;
  /** Operation that failed, such as `v3.orders.list`; undefined if it concerns all of them. */
  readonly operation?: string | undefined;
  readonly retryAfterMs?: number;
  /** True if the service itself answered, with a JSON body. False for the page of a proxy. */
  readonly jsonBody?: boolean;
  /** True if the body gives reasons, as JSON:API `errors[]`. */
  readonly explained?: boolean;
}

/**
 * The error of a failed request to the service (docs/interface.md, 4.1 Outcomes). The message never
 * holds a token, a password or a body. If it repeats words of the service, they are quoted.
 */
export class WarehouseError extends CodedError {
  readonly outcome: Outcome;
  readonly status: number | undefined;
  readonly operation: string | undefined;
  readonly retryAfterMs: number | undefined;
  readonly jsonBody: boolean;
  readonly explained: boolean;

  constructor(code: ErrorCode, message: string, details: WarehouseErrorDetails) {
    super(code, message, details.cause === undefined ? undefined : { cause: details.cause });
    this.outcome = details.outcome;
    this.status = details.status;
    this.operation = details.operation;
    this.retryAfterMs = details.retryAfterMs;
    this.jsonBody = details.jsonBody ?? false;
    this.explained = details.explained ?? false;
  }
}

/**
 * Makes the error of an answer that cannot be read. The service may have carried out the request.
 * @param operation the operation that the message names
 */
export const makeUndecodableError = (message: string, operation?: string): WarehouseError =>
  new WarehouseError('undecodable', message, { outcome: 'unknown', operation });

/** Makes the same error in other words, perhaps with another outcome. */
export function rewordError(
  error: WarehouseError,
  message: string,
  outcome = error.outcome,
): WarehouseError {
  const { code, status, operation, retryAfterMs, jsonBody, explained } = error;
  return new WarehouseError(code, message, {
    outcome,
    status,
    operation,
    ...(retryAfterMs !== undefined && { retryAfterMs }),
    jsonBody,
    explained,
    cause: error,
  });
}

/**
 * The codes of a failure, which are stored beside its words. Code decides by them: nothing reads
 * the words.
 */
export interface FailureCodes {
  /** An ErrorCode. A database may hold the code of another version. */
  readonly code: string;
  /** HTTP status of the answer; null without an answer. */
  readonly httpStatus: number | null;
  /** Operation that failed, such as `v3.orders.list`; null if it concerns no single one. */
  readonly operation: string | null;
}

/** A failure as the database keeps it. */
export interface Failure extends FailureCodes {
  /** What happened, for people. */
  readonly words: string;
}

/** Returns an error as the database keeps it. */
export const toFailure = (error: unknown, words = describeError(error)): Failure => ({
  ...readFailureCodes(error),
  words,
});

/** Returns the codes of an error. */
export function readFailureCodes(error: unknown): FailureCodes {
  const { status = null, operation = null } = error instanceof WarehouseError ? error : {};
  return { code: readErrorCode(error), httpStatus: status, operation };
}

/** SQLSTATE of a server that cannot write because its disk is full. */
const diskFullState = '53100';
/** What Postgres 14 and 15 say, without that state, if a new session finds the disk full. */
const fullInitFile = { state: 'XX000', message: 'could not write init file' };

function readErrorCode(error: unknown): ErrorCode {
  if (error instanceof CodedError) return error.code;
  if (!(error instanceof Error && 'code' in error)) return 'unexpected';

  const { state, message } = fullInitFile;
  const hasFullInitFile = error.code === state && error.message === message;
  return error.code === diskFullState || hasFullInitFile ? 'disk_full' : 'unexpected';
}

/** Codes of requests that got no answer of the service. */
const silenceCodes: ReadonlySet<string> = new Set(['connect_failed', 'timeout', 'connection_lost']);

/** Returns true if a request got no answer of the service, or only a part of one. */
export const isSilence = ({ code }: Pick<FailureCodes, 'code'>): boolean => silenceCodes.has(code);

/** Returns true if the service did not serve a request: it did not answer, or answered 5xx. */
export const isOutage = (failure: FailureCodes): boolean =>
  isSilence(failure) || (failure.httpStatus ?? 0) >= 500;

/** Returns true if the error is one of ours with this code. */
export const hasCode = (error: unknown, code: ErrorCode): error is CodedError =>
  error instanceof CodedError && error.code === code;

/**
 * Returns true for an error without a code. Drivers (pg, ioredis) throw such errors if a connection
 * has become useless.
 */
export const isUncoded = (error: unknown): error is Error =>
  error instanceof Error && Object.getPrototypeOf(error) === Error.prototype && !('code' in error);

/**
 * The error of a run whose lease went to another worker. The run must not write anything that it
 * still has in memory.
 */
export class LeaseLostError extends CodedError {
  constructor(client: string, name: string) {
    const lost = `Another worker took over the lease of ${name} for client ${client}`;
    super('lease_lost', `${lost}; this run writes nothing more`);
  }
}

/**
 * The error of a run that was asked to stop. What it has committed stays, and the next run
 * continues from there.
 */
export class StoppedError extends CodedError {
  constructor() {
    super('stopped', 'The run was asked to stop');
  }
}

/** The error of a run that may not do its work yet. It does not count as a failure. */
export class NotYetError extends CodedError {
  readonly dueAt: Date;
  /** @param reason text for the status page and the command line */
  constructor(reason: string, dueAt: Date) {
    super('not_yet', reason);
    this.dueAt = dueAt;
  }
}

/**
 * Returns the error that ends the work of an aborted signal: the signal's own error, or else a
 * StoppedError.
 */
export function toStopError({ reason }: AbortSignal): Error {
  return reason instanceof Error && reason.name !== 'AbortError' ? reason : new StoppedError();
}

/**
 * Describes an error and its causes in one line for people: `outer: inner: innermost`. Words that
 * may repeat sent or received data are quoted, so that a log can leave them out.
 */
export function describeError(error: unknown): string {
  const parts: string[] = [];

  for (let current: unknown = error; current !== undefined && parts.length < 6; ) {
    if (!(current instanceof Error)) {
      parts.push(quote(String(current)));
      break;
    }

    const code = 'code' in current && typeof current.code === 'string' ? current.code : '';
    const text = describeOneError(current, code) || code || current.name;
    if (!parts.includes(text)) parts.push(text);
    current = current.cause;
  }

  return parts.join(': ').slice(0, 2_000);
}

/** SQLSTATE classes whose messages repeat values: data exceptions and violated constraints. */
const valueQuotingState = /^2[23][0-9A-Z]{3}$/;

/**
 * Names of errors whose messages never hold data of a row. Other errors, such as a TypeError, may
 * show a value.
 */
const plainErrorNames = new Set([
  'Error',
  'AggregateError',
  'TimeoutError',
  'ReplyError',
  'ConfigError',
]);

function describeOneError(error: Error, code: string): string {
  if (error instanceof CodedError)
    return error.remedy === undefined ? error.message : `${error.message}; ${error.remedy}`;
  // An error around one with the same code only repeats it.
  const isWrapper =
    error.cause instanceof Error && 'code' in error.cause && error.cause.code === code;
  const plain = isWrapper ? null : describeLibraryError(error);
  if (plain !== null) return plain;

  const isPlain =
    plainErrorNames.has(error.name) || /^(E[A-Z]+$|EAI_|ERR_TLS|ERR_SSL|UND_ERR_)/.test(code);
  // The name of a database error is `error`. Other errors, such as a SyntaxError, may show the text
  // they failed on.
  const isOpen = error.name === 'error' || isPlain;
  if (isOpen && !valueQuotingState.test(code)) return error.message;

  const name = error.name === 'Error' || error.name === 'error' ? code : error.name;
  return `${name}: ${quote(error.message)}`;
}
