import type { ErrorCode } from '../../core/error-codes.ts';
import { type Outcome, undecodableAnswer, WarehouseError } from '../../core/errors.ts';
import { isObject, type Json, parseExact } from '../../core/json.ts';
import { quote } from '../../core/quote.ts';
import { dayMs } from '../../core/time.ts';

/** Codes of failures before a request could have been written: DNS, TCP, and a certificate that is not accepted. */
const notConnected = /^(ECONNREFUSED|EHOSTUNREACH|ENETUNREACH|EHOSTDOWN|ENOTFOUND|EAI_|UND_ERR_CONNECT_TIMEOUT)/;
const badCertificate = /^(ERR_TLS_CERT|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO_)/;
const maxRetryAfterMs = dayMs;
/** 4xx that say nothing of the request itself. */
const passing = new Set([401, 408, 425, 429]);

/** A connection that was not made: no name, no route, no TLS. Nothing of a request was written. */
export class NotConnectedError extends Error {
  readonly code: string;
  constructor(cause: Error) {
    super('no connection', { cause });
    this.name = 'NotConnectedError';
    this.code = 'code' in cause ? String(cause.code) : '';
  }
}

/** Names what went wrong on the wire, and whether the request may have been carried out. */
export function transportError(operation: string, cause: unknown): WarehouseError {
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : '';
  const named = (ours: ErrorCode, outcome: Outcome, text: string) =>
    new WarehouseError(ours, `${operation}: ${text}`, { outcome, cause });
  if (isBeforeSending(cause)) {
    const why = badCertificate.test(code) ? `: its certificate is not accepted (${code})` : '';
    return named('connect_failed', 'not_executed', `no connection to the service${why}`);
  }
  // Whoever stops a request is told so before: what is left is a proxy that opens no tunnel.
  if (code === 'UND_ERR_ABORTED')
    return named('connect_failed', 'not_executed', 'the proxy opens no connection to the service (HTTPS_PROXY)');
  if (code === 'UND_ERR_RES_EXCEEDED_MAX_SIZE') return named('body_too_large', 'unknown', 'the answer is too large');
  if (code === 'UND_ERR_HEADERS_TIMEOUT' || code === 'UND_ERR_BODY_TIMEOUT' || isTimeout(cause)) {
    return named('timeout', 'unknown', 'the service did not answer in time');
  }
  return named('connection_lost', 'unknown', 'the connection broke before the answer was complete');
}

/** An answer in an encoding, which no request asks for: what it would unpack to is not to be known beforehand. */
export function encodedError(operation: string, encoding: string): WarehouseError {
  const message = `${operation}: the answer is encoded as ${quote(encoding)}, which was not asked for`;
  return undecodableAnswer(message);
}

function isBeforeSending(cause: unknown): boolean {
  if (cause instanceof AggregateError) return cause.errors.length > 0 && cause.errors.every(isBeforeSending);
  if (cause instanceof NotConnectedError) return true;
  if (!(cause instanceof Error)) return false;
  const { code = '', syscall = '' } = cause as Error & { code?: unknown; syscall?: unknown };
  return (
    syscall === 'connect' ||
    syscall === 'getaddrinfo' ||
    notConnected.test(String(code)) ||
    badCertificate.test(String(code))
  );
}

function isTimeout(cause: unknown): boolean {
  return cause instanceof DOMException && cause.name === 'TimeoutError';
}

export interface StatusAnswer {
  readonly status: number;
  readonly body: string;
  readonly contentType: string;
  readonly retryAfter: string | undefined;
  readonly dateMs: number | null;
}

/**
 * An answer that is not 2xx as an error. Error bodies of v3 are not shown in interface.md: titles of JSON:API `errors[]`
 * are quoted, cut; nothing else of the body is, as it may hold personal data.
 */
export function statusError(operation: string, answer: StatusAnswer): WarehouseError {
  const { status } = answer;
  const jsonBody = /\bjson\b/i.test(answer.contentType) && parsed(answer.body) !== undefined;
  const refusal = jsonBody && status >= 400 && status < 500 && !passing.has(status) ? nokMessage(answer.body) : null;
  if (refusal !== null)
    return new WarehouseError('nok', `${operation}: NOK: ${refusal}`, { outcome: 'refused', status, jsonBody });
  const problems = jsonBody ? jsonApiErrors(answer.body) : [];
  const titles = errorTitles(problems);
  const retryAfterMs = readRetryAfterMs(answer.retryAfter, answer.dateMs);
  const redirected = status >= 300 && status < 400;
  return new WarehouseError(
    redirected ? 'redirected' : status === 401 ? 'unauthorized' : 'http_status',
    `${operation}: ${redirected ? `redirected (${status}), which is never followed` : `answered ${status}`}${titles}`,
    {
      outcome: outcomeOf(status, jsonBody, retryAfterMs),
      status,
      jsonBody,
      explained: problems.length > 0,
      ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    },
  );
}

function outcomeOf(status: number, jsonBody: boolean, retryAfterMs: number | undefined): Outcome {
  if (status === 408) return 'unknown';
  if ([401, 425, 429].includes(status)) return 'not_executed';
  if (status === 503 && retryAfterMs !== undefined) return 'not_executed';
  // A redirect of a request that makes a change may follow upon the change.
  if (status >= 500 || status < 400) return 'unknown';
  // A 4xx without a JSON body is a proxy's voice, not the service's.
  return jsonBody ? 'refused' : 'not_executed';
}

/**
 * Milliseconds of a Retry-After header, in seconds or as a date (read against the answer's own Date), at most a day.
 */
export function readRetryAfterMs(header: string | undefined, dateMs: number | null): number | undefined {
  if (header === undefined) return undefined;
  const waitMs = /^\d+$/.test(header.trim()) ? Number(header) * 1_000 : Date.parse(header) - (dateMs ?? Date.now());
  return Number.isNaN(waitMs) ? undefined : Math.min(Math.max(waitMs, 0), maxRetryAfterMs);
}

/** The words of an envelope that says NOK, whose status the interface does not show (interface.md, Errors); else null. */
function nokMessage(body: string): string | null {
  const envelope = parsed(body);
  if (!isObject(envelope) || envelope.messageCode !== 'NOK') return null;
  return typeof envelope.message === 'string' ? quote(envelope.message) : 'without a message';
}

function jsonApiErrors(body: string): readonly Json[] {
  const document = parsed(body);
  return isObject(document) && Array.isArray(document.errors) ? document.errors : [];
}

function errorTitles(errors: readonly Json[]): string {
  const titles = errors.map((error) => (isObject(error) && typeof error.title === 'string' ? error.title : ''));
  const text = titles.filter(Boolean).join('; ');
  return text === '' ? '' : `: ${quote(text)}`;
}

function parsed(body: string) {
  try {
    return parseExact(body);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}
