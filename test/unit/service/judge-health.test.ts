import { describe, expect, test } from 'vitest';
import type { ErrorCode } from '../../../src/core/error-codes.ts';
import type { Failure } from '../../../src/core/errors.ts';
import {
  type Evidence,
  type Health,
  judgeHealth,
} from '../../../src/service/health/judge-health.ts';

const now = new Date('2026-05-04T12:00:00Z');
const later = (ms: number) => new Date(now.getTime() + ms);

const toFailure = (code: ErrorCode, words: string): Failure => ({
  ...{ code, words },
  ...{ httpStatus: null, operation: null },
});
const failed = (isNew = true): Evidence => ({
  seen: 'failure',
  failure: toFailure('http_status', 'answered 500'),
  isNew,
});
const success: Evidence = { seen: 'success' };
const answered: Evidence = { seen: 'answered', signedIn: true, isTrial: true };
const silence: Evidence = { seen: 'no_answer', failure: toFailure('timeout', 'no answer') };
const refused: Evidence = {
  ...{ seen: 'credentials_refused', failure: toFailure('credentials_refused', 'refused') },
};
const tooFast: Evidence = { seen: 'too_fast', failure: toFailure('http_status', 'answered 429') };
const askToWait = (ms: number): Evidence => ({
  ...{ seen: 'asked_to_wait', failure: toFailure('http_status', 'asked to wait'), ms },
});
const noRoute: Evidence = { seen: 'wrong_path', failure: toFailure('http_status', 'answered 404') };

/** A kind whose hold is over, unless `changes` say otherwise. */
const makeHealth = (changes: Partial<Health> = {}): Health => ({
  ...{ code: 'kind_failing', cause: toFailure('http_status', 'x'), failures: 5, sendWindow: 1 },
  ...{ since: later(-60_000), nextAt: later(-1), voidAt: later(60_000) },
  ...changes,
});
/** A health that holds for some more seconds. */
const makeHeld = (changes: Partial<Health> = {}) =>
  makeHealth({ nextAt: later(5_000), ...changes });

/** Judges the evidence in sequence, none of it while a hold lasts. */
function judgeAll(evidence: readonly Evidence[], from: Health | null = null): Health | null {
  let health = from;
  for (const one of evidence)
    health = judgeHealth(health === null ? null : endHold(health), one, now);
  return health;
}
const endHold = (health: Health): Health => ({ ...health, nextAt: later(-1) });
const readHoldMs = (health: Health | null) =>
  health === null ? 0 : health.nextAt.getTime() - now.getTime();

describe('a kind', () => {
  test('is held when five different rows of it failed, and then sends one row at a time', () => {
    expect(judgeAll(Array(4).fill(failed()))).toMatchObject({ failures: 4, sendWindow: null });

    const fifth = judgeAll(Array(5).fill(failed()));
    expect(fifth).toMatchObject({
      ...{ code: 'kind_failing', failures: 5, sendWindow: 1, since: now },
      cause: { words: 'answered 500' },
    });
    expect(readHoldMs(fifth)).toBeCloseTo(250 * 1.15 ** 5, -1);
  });

  test('is not held by one row that fails repeatedly, or if other rows are done', () => {
    expect(judgeAll(Array(100).fill(failed(false)))).toBeNull();
    const four = Array(4).fill(failed());
    expect(judgeAll([...four, success, ...four])).toMatchObject({ failures: 4, sendWindow: null });
    expect(judgeAll([...four, success])).toBeNull();
  });

  test('is held longer with each row that fails, up to 10 s, also if all failed before', () => {
    const holdTimes: number[] = [];
    let health: Health | null = makeHealth();
    for (let times = 0; times < 60; times++) {
      health = judgeAll([failed(times % 2 === 0)], health);
      holdTimes.push(readHoldMs(health));
    }
    expect(holdTimes).toEqual(holdTimes.toSorted((one, other) => one - other));
    expect(holdTimes.at(-1)).toBe(10_000);
    // Twenty rows that fail before one is done do not delay the others by minutes.
    expect(holdTimes.slice(0, 20).reduce((sum, ms) => sum + ms, 0)).toBeLessThan(60_000);
  });

  test('is not held longer for rows that were under way when the hold began', () => {
    for (const health of [makeHeld(), makeHeld({ code: 'wrong_path' })])
      expect(judgeHealth(health, failed(), now)).toBe(health);
  });

  test('widens its send window by one with each row done, and halves it with a row that fails', () => {
    const held = makeHeld();
    expect(judgeHealth(held, success, now)).toMatchObject({
      ...{ failures: 0, sendWindow: 2, nextAt: now },
    });
    expect(judgeAll(Array(14).fill(success), held)).toMatchObject({ sendWindow: 15 });
    expect(judgeAll(Array(15).fill(success), held)).toBeNull();

    const wide = makeHealth({ failures: 0, sendWindow: 8 });
    expect(judgeHealth(wide, failed(), now)).toMatchObject({ sendWindow: 4, failures: 1 });
    expect(judgeHealth(wide, failed(false), now)).toBe(wide);
  });

  test('whose path the service does not have is held for 15 minutes', () => {
    const parked = judgeHealth(null, noRoute, now);
    expect(parked).toMatchObject({ code: 'wrong_path', sendWindow: 1 });
    expect(readHoldMs(parked)).toBe(900_000);
    // Then one row is tried. If it fails for another reason, the hold has another code.
    expect(judgeAll([failed()], parked)).toMatchObject({ code: 'kind_failing' });
    expect(judgeAll([success], parked)).toMatchObject({ sendWindow: 2 });
  });
});

describe('a client', () => {
  test('that does not answer is asked every 5 s', () => {
    const first = judgeHealth(null, silence, now);
    expect(first).toMatchObject({ code: 'no_answer', failures: 1, sendWindow: 0, since: now });
    expect(readHoldMs(first)).toBe(5_000);
    expect(judgeHealth(first, { ...silence, isTrial: true }, now)).toEqual(first);
  });

  test('is held longer only by the question, not by requests that were under way', () => {
    const away = makeHealth({ code: 'no_answer', sendWindow: 0 });
    for (const evidence of [silence, success, askToWait(1_000)])
      expect(judgeHealth(away, evidence, now)).toBe(away);
    const closed = makeHeld({ code: 'credentials_refused', sendWindow: 0 });
    expect(readHoldMs(judgeHealth(closed, { ...refused, isTrial: true }, now))).toBe(900_000);
  });

  test('that accepts the credentials again is sent one row, then one more with each row done', () => {
    const closed = makeHealth({ code: 'credentials_refused', sendWindow: 0 });
    const accepted = judgeHealth(closed, answered, now);
    expect(accepted).toMatchObject({ failures: 0, sendWindow: 1, nextAt: now });
    expect(judgeAll([success, success], accepted)).toMatchObject({ sendWindow: 3 });
  });

  test('that answers status/get keeps a hold for refused credentials, and no other', () => {
    const closed = makeHealth({ code: 'credentials_refused', sendWindow: 0 });
    expect(judgeHealth(closed, { ...answered, signedIn: false }, now)).toBe(closed);
    const away = makeHealth({ code: 'no_answer', sendWindow: 0 });
    expect(judgeHealth(away, { ...answered, signedIn: false }, now)).toMatchObject({
      sendWindow: 1,
    });
  });

  test('whose question is answered keeps a hold that waits for no answer', () => {
    const slow = makeHeld({ code: 'too_fast', sendWindow: 4 });
    expect(judgeHealth(slow, answered, now)).toBe(slow);
    expect(judgeHealth(null, answered, now)).toBeNull();
  });

  test('that gets rows too fast is sent none for 1 s, longer if none is done meanwhile, up to 10 s', () => {
    const first = judgeHealth(null, tooFast, now);
    expect(first).toMatchObject({ code: 'too_fast', sendWindow: 4 });
    expect(readHoldMs(first)).toBe(1_000);
    expect(judgeHealth(first, tooFast, now)).toBe(first);
    expect(readHoldMs(judgeAll([tooFast], first))).toBe(2_000);
    // The answers to rows that were sent before the 429 come after it.
    const done = judgeHealth(first, success, now);
    expect(done).toEqual({ ...first, failures: 0 });
    expect(readHoldMs(judgeAll([tooFast], done))).toBe(1_000);
    expect(readHoldMs(judgeAll([success, tooFast], first))).toBe(1_000);
    expect(readHoldMs(judgeAll(Array(9).fill(tooFast), first))).toBe(10_000);
  });

  test('that asks to wait gets its time, whatever other requests say meanwhile', () => {
    const waiting = judgeHealth(null, askToWait(30_000), now);
    expect(waiting).toMatchObject({ code: 'asked_to_wait', sendWindow: 4 });
    expect(readHoldMs(waiting)).toBe(30_000);
    for (const evidence of [success, silence])
      expect(judgeHealth(waiting, evidence, now)).toBe(waiting);
    expect(readHoldMs(judgeHealth(waiting, askToWait(60_000), now))).toBe(60_000);
    expect(readHoldMs(judgeHealth(waiting, askToWait(1_000), now))).toBe(30_000);
  });

  test('has a new beginning of its trouble after rows were done, or if the cause is another', () => {
    const wide = makeHealth({ code: 'no_answer', sendWindow: 3 });
    expect(judgeHealth(wide, silence, now)?.since).toEqual(now);
    const single = makeHealth({ code: 'no_answer', sendWindow: 1 });
    expect(judgeHealth(single, silence, now)?.since).toEqual(single.since);
    expect(judgeHealth(single, refused, now)?.since).toEqual(now);
  });
});

test.each([
  ['no_answer', silence, 5_000],
  ['credentials_refused', refused, 900_000],
  ['asked_to_wait', askToWait(1_000), 900_000],
  ['wrong_path', noRoute, 900_000],
] as const)('health of code %s is void after its longest pause and a trial', (_, evidence, ms) => {
  const health = judgeHealth(null, evidence, now);
  const voidAt = health?.voidAt ?? now;
  expect(voidAt).toEqual(later(ms + 60_000));
  // What a backup brings is taken for nothing.
  expect(judgeHealth(health, success, voidAt)).toBeNull();
  // So is what was stored before the clock was set back.
  expect(judgeHealth(health, success, later(-86_400_000))).toBeNull();
});

/** Milliseconds of a request to the service, and of one that it does not answer. */
const [requestMs, unansweredMs] = [100, 8_000];

/** Returns how long rows are sent within a send window, until the limit ends. */
function rampUpMs(health: Health | null): number {
  if (health?.sendWindow == null) return 0;
  return requestMs + rampUpMs(judgeAll(Array(health.sendWindow).fill(success), health));
}

describe.each([2, 20, 120])('after %i minutes, all rows are sent again within 15 s', (minutes) => {
  const endsAtMs = minutes * 60_000;

  test('in which the service did not answer, although the last question met its return', () => {
    const question = { ...silence, isTrial: true };
    let health = judgeHealth(null, silence, now);
    for (let nowMs = 0; nowMs < endsAtMs; nowMs += readHoldMs(health) + unansweredMs)
      health = judgeHealth(health, question, now);
    const back = judgeHealth(health, answered, now);
    expect(unansweredMs + readHoldMs(health) + requestMs + rampUpMs(back)).toBeLessThan(15_000);
  });

  test('in which all rows of a kind failed', () => {
    let health = judgeAll(Array(5).fill(failed()));
    for (let nowMs = 0; nowMs < endsAtMs; nowMs += readHoldMs(health))
      health = judgeAll([failed()], health);
    expect(readHoldMs(health) + rampUpMs(health)).toBeLessThan(15_000);
  });
});
