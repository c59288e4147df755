/**
 * Pure functions: errors, retry, time, JSON, and what follows from an attempt. Nothing here reads a clock, a file or a
 * database.
 */

import type { ErrorCode } from './error-codes.ts';
import { quote } from './quote.ts';

/** An error with a stable `code` that logs, the ledger and scripts may rely on. */
export class CodedError extends Error {
  readonly code: ErrorCode;
  constructor(code: ErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
    this.code = code;
  }
}

/**
 * What a failed request means for its effect at the service.
 * `not_executed`: it was not carried out; trying later is safe. `unknown`: it may have been carried out.
 * `refused`: the service answered no; the same request will be refused again.
 */
export type Outcome = 'not_executed' | 'unknown' | 'refused';

export interface WarehouseErrorDetails extends ErrorOptions {
  readonly outcome: Outcome;
  readonly status?: number;
  readonly retryAfterMs?: number;
  /** True where the service itself answered, with a JSON body; a proxy's page is false. */
  readonly jsonBody?: boolean;
  /** True where that body says why, as JSON:API `errors[]`. */
  readonly explained?: boolean;
}

/**
 * A request to the service failed (interface.md, Errors). The message never holds a token, a password or a body; what it
 * repeats of the service's words is quoted.
 */
export class WarehouseError extends CodedError {
  readonly outcome: Outcome;
  readonly status: number | undefined;
  readonly retryAfterMs: number | undefined;
  readonly jsonBody: boolean;
  readonly explained: boolean;
  constructor(code: ErrorCode, message: string, details: WarehouseErrorDetails) {
    super(code, message, details.cause === undefined ? undefined : { cause: details.cause });
    this.outcome = details.outcome;
    this.status = details.status;
    this.retryAfterMs = details.retryAfterMs;
    this.jsonBody = details.jsonBody ?? false;
    this.explained = details.explained ?? false;
  }
}

/** Makes the error of an answer that cannot be read: what was asked for may have been carried out. */
export const undecodableAnswer = (message: string): WarehouseError =>
  new WarehouseError('undecodable', message, { outcome: 'unknown' });

/** Returns true if the error is one of ours with this code. */
export const hasCode = (error: unknown, code: ErrorCode): error is CodedError =>
  error instanceof CodedError && error.code === code;

/**
 * Returns true for an error without any code. Drivers (pg, ioredis) throw such errors if a connection is of no use any more.
 */
export const isUncoded = (error: unknown): error is Error =>
  error instanceof Error && Object.getPrototypeOf(error) === Error.prototype && !('code' in error);

/** The lease went to another worker; nothing this run still holds in memory may be written. */
export class LeaseLostError extends CodedError {
  constructor(client: string, name: string) {
    super('lease_lost', `The lease of ${name} for client ${client} was taken over; this run writes nothing more`);
  }
}

/** The run was asked to stop; what was committed stays and the next run goes on from there. */
export class StoppedError extends CodedError {
  constructor() {
    super('stopped', 'The run was asked to stop');
  }
}

/** The run found that it may not do its work yet; that is no failure. */
export class NotYetError extends CodedError {
  readonly dueAt: Date;
  /** @param reason in words, for status and the command line */
  constructor(reason: string, dueAt: Date) {
    super('not_yet', reason);
    this.dueAt = dueAt;
  }
}

/** Why an aborted signal ends the work: the error it was aborted with, or plainly that it was asked to stop. */
export function stopReason({ reason }: AbortSignal): Error {
  return reason instanceof Error && reason.name !== 'AbortError' ? reason : new StoppedError();
}

/**
 * The whole chain of an error as one line for people: `outer: inner: innermost`. Words that may repeat what was sent or
 * received are quoted, so that a log can leave them out.
 */
export function describeError(error: unknown): string {
  const parts: string[] = [];
  for (let current: unknown = error; current !== undefined && parts.length < 6; ) {
    if (!(current instanceof Error)) {
      parts.push(quote(String(current)));
      break;
    }
    const code = 'code' in current && typeof current.code === 'string' ? current.code : '';
    const text = current.message === '' ? code || current.name : wordsOf(current, code);
    if (!parts.includes(text)) parts.push(text);
    current = current.cause;
  }
  return parts.join(': ').slice(0, 2_000);
}

/** SQLSTATE classes whose messages repeat values: data exceptions, and constraints. */
const quotesValues = /^2[23][0-9A-Z]{3}$/;
/** What servers throw that never see a row. Faults of the language may show the value they stumbled over. */
const plainErrors = new Set(['Error', 'AggregateError', 'TimeoutError', 'ReplyError', 'ConfigError']);

function wordsOf(error: Error, code: string): string {
  if (error instanceof CodedError) return error.message;
  const isPlain = plainErrors.has(error.name) || /^(E[A-Z]+$|EAI_|ERR_TLS|ERR_SSL|UND_ERR_)/.test(code);
  const name = error.name === 'Error' || error.name === 'error' ? code : error.name;
  // A database error calls itself `error`. Others, such as a SyntaxError, may show the text they stumbled over.
  const isOpen = error.name === 'error' || isPlain;
  return isOpen && !quotesValues.test(code) ? error.message : `${name}: ${quote(error.message)}`;
}
