import { describe, expect, test } from 'vitest';
import type { ErrorCode } from '../../../src/core/error-codes.ts';
import { WarehouseError } from '../../../src/core/errors.ts';
import {
  type AbsenceBasis,
  type FailedAttempt,
  judgeAbsence,
  judgeFailure,
  type LookedUpRow,
  measureListLagMs,
  readEvidence,
} from '../../../src/push/judge-outcome.ts';
import { batchRows } from '../../../src/push/kinds/look-up-orders.ts';
import { outboxKinds } from '../../../src/push/kinds/registry.ts';
import { maskPayload, maskResult } from '../../../src/push/show-row.ts';
import { findDoubtedScope } from '../../../src/service/health/client-health.ts';
import { toStatusError, toTransportError } from '../../../src/service/transport/http-error.ts';

const policy = { maxAttempts: 25, maxAgeMs: 3 * 86_400_000 };
const answer = (
  status: number,
  {
    retryAfter,
    body = '{}',
    contentType = 'application/json',
  }: { retryAfter?: string; body?: string; contentType?: string } = {},
) => toStatusError('v3.orders.create', { status, body, contentType, retryAfter, dateMs: null });
const failTransport = (code: string) =>
  toTransportError('v3.orders.create', Object.assign(new Error(code), { code }));
const html = { body: '<html>', contentType: 'text/html' };
const baseAttempt: Omit<FailedAttempt, 'error'> = {
  sent: true,
  rule: 'look up',
  doubtsRefusal: true,
  documented: true,
  notFoundMeansRoute: true,
  attempts: 1,
  ageMs: 1_000,
  refusedForOthers: 0,
};
const badToken = new WarehouseError('token_refused', 'no', {
  outcome: 'not_executed',
  status: 401,
});
const judge = (error: WarehouseError, changes: Partial<FailedAttempt> = {}) =>
  judgeFailure({ ...baseAttempt, error, ...changes }, policy, 0.5);

describe('the outcome of a failed attempt', () => {
  test.each<[string, WarehouseError, string]>([
    ['connection refused', failTransport('ECONNREFUSED'), 'pending'],
    ['name not found', failTransport('ENOTFOUND'), 'pending'],
    ['connection reset', failTransport('ECONNRESET'), 'unknown'],
    ['no answer', failTransport('UND_ERR_HEADERS_TIMEOUT'), 'unknown'],
    ['401', answer(401), 'pending'],
    ['408', answer(408), 'unknown'],
    ['425', answer(425), 'pending'],
    ['429', answer(429), 'pending'],
    ['500', answer(500), 'unknown'],
    ['502 of a proxy', answer(502, html), 'unknown'],
    ['503', answer(503), 'unknown'],
    ['503 with Retry-After', answer(503, { retryAfter: '3' }), 'pending'],
    ['403 of a proxy', answer(403, html), 'pending'],
    ['302', answer(302), 'unknown'],
    ['422', answer(422), 'dead'],
  ])('%s', (_name, error, status) => {
    // The service may make the change before it redirects the request.
    expect(judge(error, { doubtsRefusal: false }).status).toBe(status);
  });

  const ofMany = { attempts: 99, ageMs: 9e9 };
  const free = { status: 'pending', refund: true };
  const counted = { status: 'pending', refund: false };
  const stopped = new WarehouseError('stopped', 'asked to stop', { outcome: 'unknown' });
  const explained = { body: '{"errors": [{"title": "Not yours"}]}' };
  const assumed = { documented: false };

  test.each<[string, WarehouseError, Partial<FailedAttempt>, object]>([
    [
      'a refusal that may say that the order is taken is looked up',
      answer(422),
      {},
      { status: 'unknown', delayMs: 0, refusal: expect.any(String), refusedAs: 'perhaps taken' },
    ],
    ['a conflict is looked up', answer(409), {}, { status: 'unknown', refusedAs: 'taken' }],
    ['unsent: a reset', failTransport('ECONNRESET'), { sent: false }, counted],
    ['unsent: 500', answer(500), { sent: false }, counted],
    // A refusal of the read before the change does not refuse the change.
    ['unsent: 422', answer(422), { sent: false }, { status: 'pending' }],
    ['unsent: 403 of an assumed path', answer(403), { ...assumed, sent: false }, counted],
    ['unsent: a stop', stopped, { sent: false, attempts: 25 }, { ...free, delayMs: 0 }],
    ['a stop after the send', stopped, {}, { status: 'unknown', written: true }],
    [
      'may be carried out: sent again if that is harmless',
      answer(500),
      { rule: 'resend' },
      { status: 'pending', written: true },
    ],
    [
      'cannot be carried out',
      answer(425),
      { rule: 'resend' },
      { status: 'pending', written: false },
    ],
    [
      'may be carried out: left to a person',
      answer(500),
      { rule: 'ask operator' },
      { status: 'unknown', delayMs: null, written: true },
    ],
    [
      'may be carried out: looked up',
      answer(500),
      {},
      { status: 'unknown', delayMs: 1_000, written: true },
    ],
    // Giving up would not make the outcome known.
    ['may be carried out, after many attempts', answer(500), ofMany, { status: 'unknown' }],
    [
      'too many attempts',
      answer(425),
      { attempts: 25 },
      { status: 'dead', error: expect.stringContaining('given up after 25 attempts') },
    ],
    // The first attempt never ends a row for its age.
    ['a first attempt', answer(425), { ageMs: policy.maxAgeMs }, { status: 'pending' }],
    [
      'too old',
      answer(425),
      { ageMs: policy.maxAgeMs, attempts: 2 },
      { status: 'dead', error: expect.stringContaining('after 72 hours') },
    ],
    ['an assumed path that is refused', answer(404), assumed, free],
    ['an assumed method that is refused', answer(405), assumed, free],
    [
      'an explained answer to an assumed path',
      answer(403, explained),
      { ...assumed, doubtsRefusal: false },
      { status: 'dead' },
    ],
    [
      'a 404 that means no route',
      answer(404),
      { ...assumed, notFoundMeansRoute: false, doubtsRefusal: false },
      { status: 'dead' },
    ],
  ])('%s', (_name, error, changes, expected) => {
    expect(judge(error, changes)).toMatchObject(expected);
  });

  test('refused credentials and limits cost no attempt, but a longer wait each time', () => {
    const refused = new WarehouseError('credentials_refused', 'no', { outcome: 'refused' });
    const others = [answer(401), answer(429), answer(429, { retryAfter: '1' })];
    for (const error of [refused, badToken, ...others])
      expect(judge(error, { sent: false, attempts: 25 })).toMatchObject({
        ...free,
        isRefusedForOthers: true,
      });
    const delayAfter = (refusedForOthers: number, status: number) =>
      (judge(answer(status), { refusedForOthers }) as { delayMs: number }).delayMs;
    expect([0, 3, 7].map((times) => delayAfter(times, 429))).toEqual([500, 500, 8_000]);
    expect([0, 4].map((times) => delayAfter(times, 401))).toEqual([500, 8_000]);
  });
});

describe('the evidence of a failed attempt about client and kind', () => {
  const evidenceFrom = (error: WarehouseError, changes: Partial<FailedAttempt> = {}) =>
    readEvidence({ ...baseAttempt, error, ...changes });
  const ask = { of: 'client', evidence: 'ask' };
  const wait = { of: 'client', evidence: { seen: 'asked_to_wait' } };
  const tooFast = { of: 'client', evidence: { seen: 'too_fast' } };
  const works = { of: 'kind', evidence: { seen: 'success' } };
  const refused = new WarehouseError('credentials_refused', 'no', { outcome: 'refused' });
  const of = (code: ErrorCode) => new WarehouseError(code, 'no', { outcome: 'unknown' });

  test.each<[string, WarehouseError, Partial<FailedAttempt>, readonly object[]]>([
    ['connection refused: the service is asked', failTransport('ECONNREFUSED'), {}, [ask]],
    ['no answer', failTransport('UND_ERR_HEADERS_TIMEOUT'), {}, [ask]],
    ['500', answer(500), {}, [{ ...ask, row: { isNew: true } }]],
    [
      '500 of a row that failed before',
      answer(500),
      { attempts: 2 },
      [{ ...ask, row: { isNew: false } }],
    ],
    [
      '500 of a row that was refused before',
      answer(500),
      { refusedForOthers: 1 },
      [{ ...ask, row: { isNew: false } }],
    ],
    ['500 with Retry-After', answer(500, { retryAfter: '5' }), {}, [wait]],
    ['403 of a proxy', answer(403, html), {}, [ask]],
    ['an answer that cannot be read', of('undecodable'), {}, [ask]],
    ['429', answer(429), {}, [tooFast]],
    ['429 with Retry-After', answer(429, { retryAfter: '5' }), {}, [wait]],
    ['429 to one row repeatedly', answer(429), { refusedForOthers: 3 }, []],
    ['401 to a token that had expired', answer(401), {}, []],
    [
      '401 to a new token: the kind',
      badToken,
      {},
      [{ of: 'kind', evidence: { seen: 'failure', isNew: true } }],
    ],
    [
      'credentials refused',
      refused,
      { sent: false },
      [{ of: 'client', evidence: { seen: 'credentials_refused' } }],
    ],
    ['425', answer(425), {}, []],
    ['422: the kind works', answer(422), {}, [works]],
    ['422 to a read before it', answer(422), { sent: false }, []],
    [
      '404 of an assumed path',
      answer(404),
      { documented: false },
      [{ of: 'kind', evidence: { seen: 'wrong_path' } }],
    ],
    [
      '404 of an assumed path to a read before it',
      answer(404),
      { documented: false, sent: false },
      [],
    ],
    ['403 of a path that was carried out before', answer(403), {}, [works]],
  ])('%s', (_name, error, changes, expected) => {
    expect(evidenceFrom(error, changes)).toHaveLength(expected.length);
    expect(evidenceFrom(error, changes)).toMatchObject(expected);
  });

  test('the client is doubted before the kind', () => {
    expect(findDoubtedScope(evidenceFrom(answer(500)))).toBe('client');
    expect(findDoubtedScope(evidenceFrom(badToken))).toBe('kind');
    expect(findDoubtedScope(evidenceFrom(answer(422)))).toBe(null);
  });
});

describe('an absence', () => {
  const row: LookedUpRow = {
    sinceWrittenMs: 200_000,
    absences: 0,
    sinceAbsentMs: null,
    lookups: 3,
    refusal: null,
    refusedAs: null,
    attempts: 1,
    ageMs: 1_000,
    retryAfterMs: 0,
    whenAbsent: 'resend',
  };
  const judgeRow = (
    changes: Partial<LookedUpRow>,
    seen: AbsenceBasis | 'no answer' = 'newer list',
    timeoutMs = 30_000,
  ) => judgeAbsence({ ...row, ...changes }, { seen, why: 'why' }, timeoutMs, policy);

  const once = { absences: 1, sinceAbsentMs: 30_000 };
  const waits = { status: 'unknown', counts: false };
  const undecided = { status: 'unknown', delayMs: null };

  test.each<[number, number, AbsenceBasis, number, object]>([
    [59_999, 3, 'newer list', 30_000, { ...waits, delayMs: 1 }],
    [10_000, 0, 'newer list', 30_000, { ...waits, delayMs: 2_000 }],
    [60_000, 3, 'newer list', 30_000, { status: 'unknown', counts: true, delayMs: 30_000 }],
    [60_000, 3, 'read', 30_000, { counts: true }],
    [119_999, 3, 'newer list', 60_000, waits],
    // A list that may be older than the attempt counts after five minutes. It may show at any
    // moment that it is new enough.
    [299_999, 3, 'list', 30_000, { ...waits, delayMs: 1 }],
    [300_000, 3, 'list', 30_000, { status: 'unknown', counts: true }],
    [100_000, 30, 'list', 30_000, { delayMs: 30_000 }],
  ])(
    '%i ms after the last attempt, look-up %i, in a %s, time limit %i ms: %j',
    (sinceWrittenMs, lookups, seen, timeoutMs, expected) => {
      expect(judgeRow({ sinceWrittenMs, lookups }, seen, timeoutMs)).toMatchObject(expected);
    },
  );

  test('is believed the second time, 30 seconds later', () => {
    expect(judgeRow({ ...once, sinceAbsentMs: 29_000 })).toMatchObject({
      ...waits,
      delayMs: 1_000,
    });
    expect(judgeRow(once)).toMatchObject({ status: 'pending', counts: true });
    expect(judgeRow({ ...once, refusal: 'no' })).toMatchObject({ status: 'dead', error: 'no' });
    expect(judgeRow({ ...once, attempts: 25 })).toMatchObject({ status: 'dead' });
    expect(judgeRow({ ...once, sinceWrittenMs: 299_000 }, 'list').status).toBe('unknown');
    expect(judgeRow({ ...once, sinceWrittenMs: 300_000 }, 'list').status).toBe('pending');
    expect(judgeRow({ ...once, sinceWrittenMs: 300_000 }, 'list', 200_000).status).toBe('unknown');
  });

  test('never makes a row dead that was refused as taken after an attempt that may have been carried out', () => {
    const taken = {
      ...{ refusal: 'it exists', refusedAs: 'taken' as const, sinceWrittenMs: 9_000_000 },
      ...{ absences: 9, lookups: 40, sinceAbsentMs: 90_000 },
    };
    for (const seen of ['list', 'newer list'] as const) {
      expect(judgeRow(taken, seen)).toMatchObject({
        ...waits,
        delayMs: 900_000,
      });
      expect(judgeRow({ ...taken, ageMs: policy.maxAgeMs }, seen)).toMatchObject(undecided);
    }
    // The resource itself shows that the attempt was not carried out.
    expect(judgeRow(taken, 'read')).toMatchObject({ status: 'dead' });
  });

  test('makes a row dead that was refused for a reason that nobody knows only in a list that is newer', () => {
    const refused = {
      ...{ refusal: 'no', refusedAs: 'perhaps taken' as const },
      ...{ sinceWrittenMs: 9_000_000, lookups: 40 },
    };
    const twice = { ...refused, absences: 1, sinceAbsentMs: 90_000 };
    expect(judgeRow(twice, 'list')).toMatchObject({ status: 'unknown', delayMs: 900_000 });
    expect(judgeRow({ ...twice, ageMs: policy.maxAgeMs }, 'list')).toMatchObject(undecided);
    expect(judgeRow(refused)).toMatchObject({ status: 'unknown', counts: true, delayMs: 30_000 });
    expect(judgeRow(twice)).toMatchObject({ status: 'dead', error: 'no' });
  });

  test('makes a refused row dead if no attempt can have been carried out', () => {
    const refused = { sinceWrittenMs: null, refusal: 'no' };
    const dead = { status: 'dead', error: 'no' };
    expect(judgeRow(refused)).toMatchObject(dead);
    for (const refusedAs of ['taken', 'perhaps taken'] as const)
      expect(judgeRow({ ...refused, refusedAs }, 'list')).toMatchObject(dead);
    expect(judgeRow(refused, 'no answer').status).toBe('unknown');
    expect(judgeRow({ ...refused, ageMs: policy.maxAgeMs }, 'no answer')).toMatchObject(dead);
  });

  test('says nothing if the look-up fails; in the end a person decides', () => {
    expect(judgeRow({ ageMs: policy.maxAgeMs }, 'no answer')).toMatchObject(undecided);
    expect(judgeRow({ ...once, attempts: 99, whenAbsent: 'ask operator' })).toMatchObject(
      undecided,
    );
    expect(judgeRow({ ...once, lookups: 30 }, 'no answer')).toMatchObject({
      ...waits,
      delayMs: 900_000,
    });
  });

  test('shows how long the list lagged when the row is found', () => {
    const found = { sinceWrittenMs: 200_000, sinceAbsentMs: 30_000, overdueMs: 0 };
    expect(measureListLagMs(found, 0)).toBe(200_000);
    expect(measureListLagMs(found, 20_000)).toBe(180_000);
    // No worker ran for a while: only the last miss is known.
    expect(measureListLagMs({ ...found, overdueMs: 100_000 }, 0)).toBe(170_000);
    expect(measureListLagMs({ ...found, sinceAbsentMs: null }, 0)).toBeNull();
    expect(measureListLagMs({ ...found, sinceWrittenMs: null }, 0)).toBeNull();
    expect(measureListLagMs(found, undefined)).toBeNull();
  });
});

test('look-ups are batched by count and length; a reference with a comma is alone', () => {
  const rows = (count: number, name: (index: number) => string) =>
    Array.from({ length: count }, (_, index) => ({ reference: name(index) }));
  expect(batchRows(rows(250, (index) => `SO-${index}`)).map(({ length }) => length)).toEqual([
    100, 100, 50,
  ]);
  const long = batchRows(rows(100, (index) => `${index}`.padStart(50, 'ü')));
  expect(long.length).toBeGreaterThan(3);
  for (const batch of long)
    expect(
      batch.map(({ reference }) => encodeURIComponent(reference)).join(',').length,
    ).toBeLessThan(5_700);
  const later = rows(250, (index) => `SO-${index}`).map((row) => ({
    ...row,
    later: { number: `L${row.reference}` },
  }));
  expect(batchRows(later).map(({ length }) => length)).toEqual([50, 50, 50, 50, 50]);
  const shared = later.map((row) => ({ ...row, later: { number: 'L' } }));
  expect(batchRows(shared).map(({ length }) => length)).toEqual([99, 99, 52]);
  expect(
    batchRows([{ reference: 'A,B' }, { reference: 'C' }, { reference: 'D,' }]).map(
      ({ length }) => length,
    ),
  ).toEqual([1, 1, 1]);
});

test('personal members of a payload are masked, others are shown', () => {
  const kind = outboxKinds.find(({ name }) => name === 'order.create');
  const payload = {
    externalOrderNumber: 'SO-1',
    email: 'CANARY',
    phoneNumber: null,
    colour: 'CANARY',
    items: [{ sku: 'MUG-BLUE', quantity: 2, price: '9.95', metadata: { reference: 'CANARY' } }],
    deliveryAddress: {
      firstName: 'CANARY',
      street1: 'CANARY',
      houseNumber: 12,
      countryCode: 'NL',
      extra: { a: ['CANARY'] },
    },
    pickUpPoint: { 'CANARY de Vries': 'CANARY' },
    metadata: { extra1: 'CANARY', 'CANARY@example.com': 1 },
    'CANARY de Vries': { CANARY: 1 },
    attachments: [{ filename: 'a.pdf', content: 'CANARY'.repeat(200) }],
  };
  const shown = maskPayload(kind, payload);
  expect(JSON.stringify(shown)).not.toContain('CANARY');
  expect(shown).toMatchObject({
    externalOrderNumber: 'SO-1',
    email: '•••',
    phoneNumber: null,
    items: [{ sku: 'MUG-BLUE', quantity: 2, price: '9.95' }],
    deliveryAddress: { firstName: '•••', countryCode: 'NL' },
    attachments: [{ filename: '•••', content: '••• (1200 characters)' }],
    pickUpPoint: '•••',
    metadata: { extra1: '•••', '•••': '1 unknown member' },
    '•••': '2 unknown members',
  });
  const long = {
    reference: 'x'.repeat(600),
    items: Array.from({ length: 5_000 }, () => ({ sku: 'A' })),
  };
  expect(maskPayload(kind, long)).toEqual({
    reference: `${'x'.repeat(500)}…`,
    items: [...Array.from({ length: 100 }, () => ({ sku: 'A' })), '… and 4900 more'],
  });
  // A text in place of an object or a list may hold anything.
  const malformed = {
    deliveryAddress: 'CANARY',
    items: 'CANARY',
    metadata: 'CANARY',
    pickUpPoint: 'CANARY',
    reference: 'R-1',
  };
  expect(maskPayload(kind, malformed)).toEqual({
    deliveryAddress: '•••',
    items: '•••',
    metadata: '•••',
    pickUpPoint: '•••',
    reference: 'R-1',
  });
  expect(maskPayload(undefined, { a: 'CANARY', b: [1] })).toEqual({ '•••': '2 unknown members' });
});

test('a masked result keeps ids, codes and our note, and hides what the service adds', () => {
  const result = {
    orderId: 5,
    orderItems: [{ id: 6, sku: 'MUG', email: 'CANARY' }],
    modifiedItemIds: [],
    note: 'checked',
    fileName: 'CANARY.pdf',
    content: 'CANARY'.repeat(50),
    address: { lastName: ['CANARY'] },
    phone: 612345678,
    'CANARY de Vries': 1,
  };
  expect(maskResult(result)).toEqual({
    orderId: 5,
    orderItems: [{ id: 6, sku: 'MUG', email: '•••' }],
    modifiedItemIds: [],
    note: 'checked',
    fileName: '•••',
    content: '•••',
    address: '•••',
    phone: '•••',
    '•••': '1 unknown member',
  });
  expect(maskResult('CANARY')).toBe('•••');
});
