import { type Outcome, WarehouseError } from '../core/errors.ts';
import { isObject, parseExact } from '../core/json.ts';

/** Codes of failures before a request could have been written: DNS, TCP and TLS. */
const notConnected = /^(ECONNREFUSED|EHOSTUNREACH|ENETUNREACH|EHOSTDOWN|ENOTFOUND|EAI_AGAIN|UND_ERR_CONNECT_TIMEOUT)$/;
const tlsFailure = /^(ERR_TLS|ERR_SSL|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO_|EPROTO)/;
const maxRetryAfterMs = 86_400_000;

/** Names what went wrong on the wire, and whether the request may have been carried out. */
export function transportError(operation: string, cause: unknown): WarehouseError {
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : '';
  const named = (ours: string, outcome: Outcome, text: string) =>
    new WarehouseError(ours, `${operation}: ${text}`, { outcome, cause });
  if (notConnected.test(code) || tlsFailure.test(code)) {
    return named('connect_failed', 'not_executed', 'no connection to the service');
  }
  if (code === 'UND_ERR_RES_EXCEEDED_MAX_SIZE') return named('body_too_large', 'unknown', 'the answer is too large');
  if (code === 'UND_ERR_HEADERS_TIMEOUT' || code === 'UND_ERR_BODY_TIMEOUT' || isTimeout(cause)) {
    return named('timeout', 'unknown', 'the service did not answer in time');
  }
  return named('connection_lost', 'unknown', 'the connection broke before the answer was complete');
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
  const titles = jsonBody ? errorTitles(answer.body) : '';
  const retryAfterMs = readRetryAfterMs(answer.retryAfter, answer.dateMs);
  const redirected = status >= 300 && status < 400;
  return new WarehouseError(
    redirected ? 'redirected' : status === 401 ? 'unauthorized' : 'http_status',
    `${operation}: ${redirected ? `redirected (${status}), which is never followed` : `answered ${status}`}${titles}`,
    {
      outcome: outcomeOf(status, jsonBody, retryAfterMs),
      status,
      jsonBody,
      ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    },
  );
}

function outcomeOf(status: number, jsonBody: boolean, retryAfterMs: number | undefined): Outcome {
  if (status === 408) return 'unknown';
  if ([401, 425, 429].includes(status)) return 'not_executed';
  if (status === 503 && retryAfterMs !== undefined) return 'not_executed';
  if (status >= 500) return 'unknown';
  // A 4xx without a JSON body is a proxy's voice, not the service's.
  return status >= 400 && !jsonBody ? 'not_executed' : 'refused';
}

/**
 * Milliseconds of a Retry-After header, in seconds or as a date (read against the answer's own Date), at most a day.
 */
export function readRetryAfterMs(header: string | undefined, dateMs: number | null): number | undefined {
  if (header === undefined) return undefined;
  const waitMs = /^\d+$/.test(header.trim()) ? Number(header) * 1_000 : Date.parse(header) - (dateMs ?? Date.now());
  return Number.isNaN(waitMs) ? undefined : Math.min(Math.max(waitMs, 0), maxRetryAfterMs);
}

function errorTitles(body: string): string {
  const document = parsed(body);
  if (!isObject(document) || !Array.isArray(document.errors)) return '';
  const titles = document.errors.map((error) =>
    isObject(error) && typeof error.title === 'string' ? error.title : '',
  );
  const text = titles.filter(Boolean).join('; ').slice(0, 200);
  return text === '' ? '' : `: ${text}`;
}

function parsed(body: string) {
  try {
    return parseExact(body);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}
