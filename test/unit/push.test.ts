import { describe, expect, test } from 'vitest';
import { outboxKinds } from '../../jobs/push-outbox.ts';
import { Breaker } from '../../src/core/breaker.ts';
import { WarehouseError } from '../../src/core/errors.ts';
import { judgeAbsence, type LookedUp } from '../../src/core/look-up.ts';
import { type FailedAttempt, judgeFailure } from '../../src/core/push-outcome.ts';
import { pushRetryDelayMs } from '../../src/core/retry.ts';
import { batchesOf } from '../../src/sync/push/look-up-orders.ts';
import { maskPayload } from '../../src/sync/push/mask.ts';
import { statusError, transportError } from '../../src/warehouse/http-error.ts';

const policy = { maxAttempts: 25, maxAgeMs: 3 * 86_400_000 };
const answer = (
  status: number,
  {
    retryAfter,
    body = '{}',
    contentType = 'application/json',
  }: { retryAfter?: string; body?: string; contentType?: string } = {},
) => statusError('v3.orders.create', { status, body, contentType, retryAfter, dateMs: null });
const cut = (code: string) => transportError('v3.orders.create', Object.assign(new Error(code), { code }));
const html = { body: '<html>', contentType: 'text/html' };
const usual: Omit<FailedAttempt, 'error'> = {
  sent: true,
  rule: 'look up',
  doubtsRefusal: true,
  documented: true,
  notFoundMeansRoute: true,
  attempts: 1,
  ageMs: 1_000,
};
const judge = (error: WarehouseError, changes: Partial<FailedAttempt> = {}) =>
  judgeFailure({ ...usual, error, ...changes }, policy, 0.5);

describe('what follows from a failed attempt', () => {
  test.each<[string, WarehouseError, string]>([
    ['connection refused', cut('ECONNREFUSED'), 'pending'],
    ['name not found', cut('ENOTFOUND'), 'pending'],
    ['bad certificate', cut('CERT_HAS_EXPIRED'), 'pending'],
    ['connection reset', cut('ECONNRESET'), 'unknown'],
    ['no answer', cut('UND_ERR_HEADERS_TIMEOUT'), 'unknown'],
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
    ['422', answer(422), 'unknown'],
  ])('%s', (_name, error, status) => {
    // A redirect of a request that makes a change may follow upon the change.
    expect(judge(error).status).toBe(status);
  });

  test('a no is dead at once, unless it has to be doubted', () => {
    expect(judge(answer(422), { doubtsRefusal: false, rule: 'send again' })).toMatchObject({ status: 'dead' });
    expect(judge(answer(422))).toMatchObject({
      status: 'unknown',
      delayMs: 0,
      refusal: expect.any(String),
    });
  });

  test('nothing that was not sent can have been carried out', () => {
    for (const error of [cut('ECONNRESET'), answer(500), answer(408)])
      expect(judge(error, { sent: false })).toMatchObject({ status: 'pending', burnt: true });
    // A no to what was only read is none to what is asked for.
    expect(judge(answer(422), { sent: false })).toMatchObject({ status: 'pending' });
    expect(judge(answer(403), { sent: false, documented: false })).toMatchObject({ status: 'pending', burnt: true });
  });

  test('a stop before it was sent is no attempt; after that its outcome is not known', () => {
    const stopped = new WarehouseError('stopped', 'asked to stop', { outcome: 'unknown' });
    expect(judge(stopped, { sent: false, attempts: 25 })).toMatchObject({
      status: 'pending',
      burnt: false,
      delayMs: 0,
    });
    expect(judge(stopped)).toMatchObject({ status: 'unknown', written: true });
  });

  test('what may have been carried out is settled by the rule of its kind', () => {
    expect(judge(answer(500), { rule: 'send again' })).toMatchObject({ status: 'pending', written: true });
    expect(judge(answer(429), { rule: 'send again' })).toMatchObject({ status: 'pending', written: false });
    expect(judge(answer(500), { rule: 'operator' })).toMatchObject({ status: 'unknown', delayMs: null, written: true });
    expect(judge(answer(500))).toMatchObject({ status: 'unknown', delayMs: 1_000, written: true });
    // However often: giving up would not make it known.
    expect(judge(answer(500), { attempts: 99, ageMs: 9e9 })).toMatchObject({ status: 'unknown' });
  });

  test('it is given up after so many attempts, or so long', () => {
    expect(judge(answer(429), { attempts: 25 })).toMatchObject({
      status: 'dead',
      error: expect.stringContaining('given up after 25 attempts'),
    });
    // Not at once, however long it waited for its first attempt.
    expect(judge(answer(429), { ageMs: policy.maxAgeMs })).toMatchObject({ status: 'pending' });
    expect(judge(answer(429), { ageMs: policy.maxAgeMs, attempts: 2 })).toMatchObject({
      status: 'dead',
      error: expect.stringContaining('after 72 hours'),
    });
  });

  test('a closed door parks the client, a path that is not there the kind; neither burns an attempt', () => {
    const refused = new WarehouseError('credentials_refused', 'no', { outcome: 'refused' });
    expect(judge(refused, { sent: false })).toMatchObject({
      status: 'pending',
      burnt: false,
      hold: { scope: 'client', ms: 900_000 },
    });
    for (const status of [403, 404, 405])
      expect(judge(answer(status), { documented: false })).toMatchObject({
        status: 'pending',
        burnt: false,
        hold: { scope: 'kind' },
      });
    expect(judge(answer(404), { documented: false, notFoundMeansRoute: false, doubtsRefusal: false })).toMatchObject({
      status: 'dead',
    });
    expect(judge(answer(404, html), { documented: false, notFoundMeansRoute: false })).toMatchObject({
      hold: { scope: 'kind' },
    });
  });
});

test('pauses grow with full jitter up to a quarter of an hour, never before Retry-After', () => {
  expect([1, 2, 5, 40].map((attempt) => pushRetryDelayMs(attempt, undefined, 0.999_999))).toEqual([
    1_000, 2_000, 16_000, 899_999,
  ]);
  expect(pushRetryDelayMs(3, undefined, 0)).toBe(0);
  expect(pushRetryDelayMs(1, 60_000, 0)).toBe(60_000);
  expect(pushRetryDelayMs(1, 86_400_000, 0.5)).toBe(900_000);
});

test('the breaker opens after ten failures in a row, and an answer counts anew', () => {
  const breaker = new Breaker();
  const note = (answered: boolean, times: number) => Array.from({ length: times }, () => breaker.note(answered));
  expect([...note(false, 9), ...note(true, 1), ...note(false, 9)]).not.toContain(true);
  expect(note(false, 1)).toEqual([true]);
});

describe('an absence', () => {
  const row: LookedUp = {
    sinceWrittenMs: 200_000,
    absences: 0,
    sinceAbsentMs: null,
    lookups: 3,
    refusal: null,
    attempts: 1,
    ageMs: 1_000,
    whenAbsent: 'send again',
  };
  const judgeRow = (changes: Partial<LookedUp>, seen: 'absent' | 'no answer' = 'absent', timeoutMs = 30_000) =>
    judgeAbsence({ ...row, ...changes }, seen, 'why', timeoutMs, policy);

  test('counts only long enough after the last attempt', () => {
    expect(judgeRow({ sinceWrittenMs: 59_999 })).toMatchObject({ status: 'unknown', counts: false, delayMs: 1 });
    expect(judgeRow({ sinceWrittenMs: 10_000, lookups: 0 })).toMatchObject({ counts: false, delayMs: 2_000 });
    expect(judgeRow({ sinceWrittenMs: 60_000 })).toMatchObject({ status: 'unknown', counts: true, delayMs: 30_000 });
    expect(judgeRow({ sinceWrittenMs: 119_999 }, 'absent', 60_000)).toMatchObject({ counts: false });
  });

  test('is believed the second time, half a minute later', () => {
    expect(judgeRow({ absences: 1, sinceAbsentMs: 29_000 })).toMatchObject({
      status: 'unknown',
      counts: false,
      delayMs: 1_000,
    });
    expect(judgeRow({ absences: 1, sinceAbsentMs: 30_000 })).toMatchObject({ status: 'pending', counts: true });
    expect(judgeRow({ absences: 1, sinceAbsentMs: 30_000, refusal: 'no' })).toMatchObject({
      status: 'dead',
      error: 'no',
    });
    expect(judgeRow({ absences: 1, sinceAbsentMs: 30_000, attempts: 25 })).toMatchObject({ status: 'dead' });
  });

  test('after a refusal of what was never written is the end', () => {
    expect(judgeRow({ sinceWrittenMs: null, refusal: 'no' })).toMatchObject({ status: 'dead', error: 'no' });
  });

  test('that could not be looked up says nothing, however often; in the end a person is asked', () => {
    expect(judgeRow({ ageMs: policy.maxAgeMs }, 'no answer')).toMatchObject({ status: 'unknown', delayMs: null });
    expect(judgeRow({ absences: 1, sinceAbsentMs: 30_000, attempts: 99, whenAbsent: 'operator' })).toMatchObject({
      status: 'unknown',
      delayMs: null,
    });
    expect(judgeRow({ absences: 1, sinceAbsentMs: 90_000, lookups: 30 }, 'no answer')).toMatchObject({
      status: 'unknown',
      counts: false,
      delayMs: 900_000,
    });
  });
});

test('look-ups are batched by number and length, numbers with a comma alone', () => {
  const rows = (count: number, name: (index: number) => string) =>
    Array.from({ length: count }, (_, index) => ({ reference: name(index) }));
  expect(batchesOf(rows(250, (index) => `SO-${index}`)).map(({ length }) => length)).toEqual([100, 100, 50]);
  const long = batchesOf(rows(100, (index) => `${index}`.padStart(50, 'ü')));
  expect(long.length).toBeGreaterThan(3);
  for (const batch of long)
    expect(batch.map(({ reference }) => encodeURIComponent(reference)).join(',').length).toBeLessThan(5_700);
  expect(
    batchesOf([{ reference: 'A,B' }, { reference: 'C' }, { reference: 'D,' }]).map(({ length }) => length),
  ).toEqual([1, 1, 1]);
});

test('what is personal in a payload is hidden, what is not can be read', () => {
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
    pickUpPoint: { name: 'CANARY' },
    metadata: { extra1: 'CANARY' },
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
  });
  // Where the schema wants an object or a list, a text may hold anything.
  const bent = {
    deliveryAddress: 'CANARY',
    items: 'CANARY',
    metadata: 'CANARY',
    pickUpPoint: 'CANARY',
    reference: 'R-1',
  };
  expect(maskPayload(kind, bent)).toEqual({
    deliveryAddress: '•••',
    items: '•••',
    metadata: '•••',
    pickUpPoint: '•••',
    reference: 'R-1',
  });
  expect(maskPayload(undefined, { a: 'CANARY', b: [1] })).toEqual({ a: '•••', b: ['•••'] });
});
