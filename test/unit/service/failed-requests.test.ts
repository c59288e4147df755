import { describe, expect, test } from 'vitest';
import type { ErrorCode } from '../../../src/core/error-codes.ts';
import { WarehouseError, type WarehouseErrorDetails } from '../../../src/core/errors.ts';
import { readRetryDelayMs } from '../../../src/service/transport/http.ts';
import {
  readRetryAfterMs,
  toStatusError,
  toTransportError,
} from '../../../src/service/transport/http-error.ts';

const failure = (code: ErrorCode, details: Partial<WarehouseErrorDetails> = {}) =>
  new WarehouseError(code, code, { outcome: 'unknown', ...details });

describe('readRetryDelayMs', () => {
  test.each<[ErrorCode, Partial<WarehouseErrorDetails>, boolean]>([
    ['connect_failed', {}, true],
    ['timeout', {}, true],
    ['connection_lost', {}, true],
    ['undecodable', {}, false],
    ['http_status', { status: 500 }, true],
    ['http_status', { status: 429 }, true],
    ['http_status', { status: 408 }, true],
    ['http_status', { status: 404 }, false],
    ['unauthorized', { status: 401 }, false],
    ['body_too_large', {}, false],
  ])('%s %j is retried: %s', (code, details, again) => {
    expect(readRetryDelayMs(failure(code, details), 1, 0.5) !== null).toBe(again);
  });

  test('grows up to its maximum, and is null after the last attempt', () => {
    const delays = [1, 2, 3, 4].map((attempt) => readRetryDelayMs(failure('timeout'), attempt, 1));
    expect(delays).toEqual([250, 500, 1_000, null]);
  });

  test('waits at least Retry-After, and leaves a long one to the caller', () => {
    expect(
      readRetryDelayMs(failure('http_status', { status: 429, retryAfterMs: 2_000 }), 1, 0),
    ).toBe(2_000);
    expect(
      readRetryDelayMs(failure('http_status', { status: 429, retryAfterMs: 3_600_000 }), 1, 0),
    ).toBeNull();
  });
});

describe('readRetryAfterMs', () => {
  const dateMs = Date.parse('2026-01-01T00:00:00Z');
  test.each([
    [undefined, undefined],
    ['3', 3_000],
    ['2.5', 2_500],
    ['0.5', 500],
    ['12.', undefined],
    ['-5', undefined],
    ['Thu, 01 Jan 2026 00:00:05 GMT', 5_000],
    ['Wed, 31 Dec 2025 00:00:00 GMT', 0],
    ['31536000', 900_000],
    ['soon', undefined],
  ])('%j is %j ms', (header, ms) => expect(readRetryAfterMs(header, dateMs)).toBe(ms));
});

test('toStatusError quotes the title of an error and nothing else of the body', () => {
  const body = '{"errors":[{"title":"No such thing","detail":"Anna de Vries"}]}';
  const answer = { status: 400, body, contentType: 'application/json' };
  const { message } = toStatusError('v3.orders.list', {
    ...{ ...answer, retryAfter: undefined, dateMs: null },
  });
  expect(message).toBe('v3.orders.list: answered 400: «No such thing»');
});

test.each([
  ['ECONNREFUSED', 'connect_failed', 'not_executed'],
  ['UND_ERR_HEADERS_TIMEOUT', 'timeout', 'unknown'],
  ['ECONNRESET', 'connection_lost', 'unknown'],
  ['UND_ERR_RES_EXCEEDED_MAX_SIZE', 'body_too_large', 'unknown'],
])('%s is %s, %s', (systemCode, code, outcome) => {
  const cause = Object.assign(new Error('x'), { code: systemCode });
  expect(toTransportError('v3.orders.list', cause)).toMatchObject({ code, outcome, cause });
});

test('a certificate that has expired is connect_failed, not_executed', () => {
  const cause = Object.assign(new Error('x'), { code: 'CERT_HAS_EXPIRED' });
  expect(toTransportError('v3.orders.list', cause)).toMatchObject({
    ...{ code: 'connect_failed', outcome: 'not_executed' },
  });
});
