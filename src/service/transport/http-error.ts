import { longestWaitMs } from '../../core/backoff.ts';
import type { ErrorCode } from '../../core/error-codes.ts';
import {
  describeError,
  makeUndecodableError,
  type Outcome,
  WarehouseError,
} from '../../core/errors.ts';
import { isObject, type Json, parseExact } from '../../core/json.ts';
import { quote } from '../../core/quote.ts';
import { findTlsError } from '../../core/tls-error.ts';

/**
 * Codes of failures before a request was sent: DNS, TCP, and a certificate that is not accepted.
 */
const notConnected =
  /^(ECONNREFUSED|EHOSTUNREACH|ENETUNREACH|EHOSTDOWN|ENOTFOUND|EAI_|UND_ERR_CONNECT_TIMEOUT)/;
const badCertificate = /^(ERR_TLS_CERT|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO_)/;

/** 4xx statuses that do not concern the request itself. */
const unrelatedStatuses = new Set([401, 408, 425, 429]);

/**
 * The error of a connection that was not made: no name, no route, no TLS. No part of a request was
 * sent.
 */
export class NotConnectedError extends Error {
  readonly code: string;
  constructor(cause: Error) {
    super('no connection', { cause });
    this.name = 'NotConnectedError';
    this.code = 'code' in cause ? String(cause.code) : '';
  }
}

/**
 * Converts a transport failure to a WarehouseError, which says whether the service may have carried
 * out the request.
 */
export function toTransportError(operation: string, cause: unknown): WarehouseError {
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : '';
  const makeError = (ours: ErrorCode, outcome: Outcome, text: string) =>
    new WarehouseError(ours, `${operation}: ${text}`, { outcome, operation, cause });

  if (isBeforeSending(cause)) {
    const tlsError = findTlsError(cause, 'service');
    if (tlsError === null)
      return makeError('connect_failed', 'not_executed', 'no connection to the service');

    // Without the cause: its words would repeat the message.
    const message = `${operation}: no connection to the service: ${describeError(tlsError)}`;
    return new WarehouseError('connect_failed', message, { outcome: 'not_executed', operation });
  }

  // A request that was stopped is handled earlier. Here, the cause is a proxy that did not open a
  // tunnel.
  if (code === 'UND_ERR_ABORTED')
    return makeError(
      'connect_failed',
      'not_executed',
      'the proxy did not open a connection to the service (HTTPS_PROXY)',
    );

  if (code === 'UND_ERR_RES_EXCEEDED_MAX_SIZE')
    return makeError('body_too_large', 'unknown', 'the answer is too large');
  if (code === 'UND_ERR_HEADERS_TIMEOUT' || code === 'UND_ERR_BODY_TIMEOUT' || isTimeout(cause))
    return makeError('timeout', 'unknown', 'the service did not answer in time');

  return makeError(
    'connection_lost',
    'unknown',
    'the connection broke before the answer was complete',
  );
}

/**
 * Makes the error of a compressed answer. No request asks for one, and its unpacked size would not
 * be known beforehand.
 */
export function makeEncodingError(operation: string, encoding: string): WarehouseError {
  const found = `${operation}: the answer is encoded as ${quote(encoding)}`;
  return makeUndecodableError(`${found}, which was not asked for`, operation);
}

function isBeforeSending(cause: unknown): boolean {
  if (cause instanceof AggregateError)
    return cause.errors.length > 0 && cause.errors.every(isBeforeSending);
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

/** An answer whose status is not 2xx. */
export interface StatusAnswer {
  readonly status: number;
  readonly body: string;
  readonly contentType: string;
  readonly retryAfter: string | undefined;
  readonly dateMs: number | null;
}

/**
 * Converts an answer that is not 2xx to an error. The error quotes only the titles of JSON:API
 * `errors[]`, shortened: the rest of the body may hold personal data, and its form is not known
 * (docs/interface.md, 4.2 Not shown).
 */
export function toStatusError(operation: string, answer: StatusAnswer): WarehouseError {
  const { status } = answer;
  const jsonBody = /\bjson\b/i.test(answer.contentType) && parseBody(answer.body) !== undefined;

  const mayRefuse = jsonBody && status >= 400 && status < 500 && !unrelatedStatuses.has(status);
  const refusal = mayRefuse ? readNokMessage(answer.body) : null;
  if (refusal !== null)
    return new WarehouseError('nok', `${operation}: NOK: ${refusal}`, {
      outcome: 'refused',
      status,
      operation,
      jsonBody,
    });

  const problems = jsonBody ? readJsonApiErrors(answer.body) : [];
  const retryAfterMs = readRetryAfterMs(answer.retryAfter, answer.dateMs);
  const code = toErrorCode(status);
  const what =
    code === 'redirected'
      ? `redirected (${status}); redirects are not followed`
      : `answered ${status}`;

  return new WarehouseError(code, `${operation}: ${what}${quoteErrorTitles(problems)}`, {
    outcome: toOutcome(status, jsonBody, retryAfterMs),
    status,
    operation,
    jsonBody,
    explained: problems.length > 0,
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  });
}

function toErrorCode(status: number): ErrorCode {
  if (status >= 300 && status < 400) return 'redirected';
  return status === 401 ? 'unauthorized' : 'http_status';
}

function toOutcome(status: number, jsonBody: boolean, retryAfterMs: number | undefined): Outcome {
  if (status === 408) return 'unknown';
  if ([401, 425, 429].includes(status)) return 'not_executed';
  if (status === 503 && retryAfterMs !== undefined) return 'not_executed';
  // The service may have carried out the change before it sent the redirect or the 5xx.
  if (status >= 500 || status < 400) return 'unknown';
  // A 4xx without a JSON body comes from a proxy, not from the service.
  return jsonBody ? 'refused' : 'not_executed';
}

/**
 * Reads a Retry-After header, which holds seconds or a date. A date is compared with the answer's
 * own Date header.
 * @returns milliseconds, at most 15 minutes; undefined if the header is absent or unreadable
 */
export function readRetryAfterMs(
  header: string | undefined,
  dateMs: number | null,
): number | undefined {
  if (header === undefined) return undefined;
  // A date has letters: Date.parse reads a date also into other texts, such as -5.
  const waitMs = /[a-z]/i.test(header)
    ? Date.parse(header) - (dateMs ?? Date.now())
    : readSeconds(header.trim()) * 1_000;
  return Number.isNaN(waitMs) ? undefined : Math.min(Math.max(waitMs, 0), longestWaitMs);
}

/** Reads seconds, which some servers send with decimals; NaN if they are not a number. */
const readSeconds = (text: string) => (/^\d+(\.\d+)?$/.test(text) ? Number(text) : Number.NaN);

/**
 * Returns the quoted message of a NOK envelope with any HTTP status, or null (docs/interface.md,
 * 4.1 Outcomes).
 */
function readNokMessage(body: string): string | null {
  const envelope = parseBody(body);
  if (!isObject(envelope) || envelope.messageCode !== 'NOK') return null;
  return typeof envelope.message === 'string' ? quote(envelope.message) : 'without a message';
}

function readJsonApiErrors(body: string): readonly Json[] {
  const document = parseBody(body);
  return isObject(document) && Array.isArray(document.errors) ? document.errors : [];
}

function quoteErrorTitles(errors: readonly Json[]): string {
  const titles = errors.map((error) =>
    isObject(error) && typeof error.title === 'string' ? error.title : '',
  );
  const text = titles.filter(Boolean).join('; ');
  return text === '' ? '' : `: ${quote(text)}`;
}

/** Parses a body; undefined if it is not JSON. */
export function parseBody(body: string): Json | undefined {
  try {
    return parseExact(body);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}
