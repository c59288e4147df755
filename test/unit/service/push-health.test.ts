import { describe, expect, test } from 'vitest';
import type { ErrorCode } from '../../../src/core/error-codes.ts';
import type { Failure } from '../../../src/core/errors.ts';
import {
  type Evidence,
  type Health,
  judgeHealth,
} from '../../../src/service/health/push-health.ts';

const toFailure = (code: ErrorCode, words: string): Failure => ({
  ...{ code, words },
  ...{ httpStatus: null, operation: null },
});
const open = { isHeld: false };
const held = { isHeld: true };
const answer = { isHeld: true, isAnswer: true };
const failed = (isNew = true): Evidence => ({
  seen: 'failure',
  failure: toFailure('http_status', 'answered 500'),
  isNew,
});
const success: Evidence = { seen: 'success' };
const silence: Evidence = {
  seen: 'no answer',
  failure: toFailure('connect_failed', 'no connection'),
};
const refused: Evidence = {
  seen: 'credentials refused',
  failure: toFailure('credentials_refused', 'refused'),
};
const askToWait = (ms: number): Evidence => ({
  seen: 'asked to wait',
  failure: toFailure('http_status', 'asked to wait'),
  ms,
});
const makeHealth = (changes: Partial<Health> = {}): Health => ({
  code: 'kind_failing',
  cause: toFailure('http_status', 'x'),
  failures: 5,
  sendWindow: 1,
  ...changes,
});

/** Judges the evidence in sequence, none of it while a hold lasts. */
function judgeAll(evidence: readonly Evidence[], from: Health | null = null) {
  return evidence.reduce((former, one) => judgeHealth(former.health, one, open), {
    health: from,
    holdMs: null,
  } as ReturnType<typeof judgeHealth>);
}

describe('a kind', () => {
  test('is held when five different rows of it failed, and then sends one row at a time', () => {
    expect(judgeAll(Array(4).fill(failed()))).toMatchObject({
      health: { failures: 4, sendWindow: null },
      holdMs: null,
    });
    const fifth = judgeAll(Array(5).fill(failed()));
    expect(fifth).toMatchObject({
      health: {
        code: 'kind_failing',
        cause: { words: 'answered 500' },
        failures: 5,
        sendWindow: 1,
      },
    });
    expect(fifth.holdMs).toBeCloseTo(250 * 1.15 ** 5, 0);
  });

  test('is not held by one row that fails repeatedly, or if other rows are done', () => {
    expect(judgeAll(Array(100).fill(failed(false)))).toEqual({ health: null, holdMs: null });
    const four = Array(4).fill(failed());
    expect(judgeAll([...four, success, ...four])).toMatchObject({
      health: { failures: 4, sendWindow: null },
    });
    expect(judgeAll([...four, success])).toEqual({ health: null, holdMs: 0 });
  });

  test('is held longer with each row that fails, up to 10 s, also if all failed before', () => {
    const holdTimes: (number | null)[] = [];
    let health: Health | null = makeHealth();
    for (let times = 0; times < 60; times++) {
      const next = judgeHealth(health, failed(times % 2 === 0), open);
      holdTimes.push(next.holdMs);
      health = next.health;
    }
    expect(holdTimes).toEqual(holdTimes.toSorted((one, other) => Number(one) - Number(other)));
    expect(holdTimes.at(-1)).toBe(10_000);
    // Twenty rows that fail before one is done do not delay the others by minutes.
    expect(holdTimes.slice(0, 20).reduce((sum: number, ms) => sum + Number(ms), 0)).toBeLessThan(
      60_000,
    );
  });

  test('is not held longer for rows that were under way when the hold began', () => {
    expect(judgeHealth(makeHealth(), failed(), held)).toEqual({
      health: makeHealth(),
      holdMs: null,
    });
    const parked = makeHealth({ code: 'kind_parked' });
    expect(judgeHealth(parked, failed(), held)).toEqual({ health: parked, holdMs: null });
  });

  test('widens its send window by one with each row done, and halves it with a row that fails', () => {
    expect(judgeHealth(makeHealth(), success, held)).toEqual({
      health: makeHealth({ failures: 0, sendWindow: 2 }),
      holdMs: 0,
    });
    expect(judgeAll(Array(14).fill(success), makeHealth())).toMatchObject({
      health: { sendWindow: 15 },
    });
    expect(judgeAll(Array(15).fill(success), makeHealth())).toEqual({ health: null, holdMs: 0 });
    expect(judgeAll([failed()], makeHealth({ failures: 0, sendWindow: 8 }))).toMatchObject({
      health: { sendWindow: 4, failures: 1 },
      holdMs: null,
    });
    expect(judgeAll([failed(false)], makeHealth({ sendWindow: 8 }))).toEqual({
      health: makeHealth({ sendWindow: 8 }),
      holdMs: null,
    });
  });

  test('whose path the service does not have is held for 15 minutes', () => {
    const parked = judgeAll([
      { seen: 'no route', failure: toFailure('http_status', 'answered 404') },
    ]);
    expect(parked).toMatchObject({
      health: { code: 'kind_parked', sendWindow: 1 },
      holdMs: 900_000,
    });
    // Then one row is tried. If it fails for another reason, the hold has another code.
    expect(judgeAll([failed()], parked.health)).toMatchObject({ health: { code: 'kind_failing' } });
    expect(judgeAll([success], parked.health)).toMatchObject({ health: { sendWindow: 2 } });
  });
});

describe('a client', () => {
  test('that does not answer is asked every 5 s', () => {
    const first = judgeHealth(null, silence, open);
    expect(first).toEqual({
      health: {
        code: 'breaker_open',
        cause: toFailure('connect_failed', 'no connection'),
        failures: 1,
        sendWindow: null,
      },
      holdMs: 5_000,
    });
    expect(judgeHealth(first.health, silence, answer)).toEqual(first);
  });

  test('is held longer only by the question, not by requests that were under way', () => {
    const former = makeHealth({ code: 'breaker_open', failures: 1 });
    expect(judgeHealth(former, silence, held)).toEqual({ health: former, holdMs: null });
    expect(judgeHealth(former, success, held)).toEqual({ health: former, holdMs: null });
    const closed = makeHealth({ code: 'credentials_refused' });
    expect(judgeHealth(closed, askToWait(1_000), held)).toEqual({ health: closed, holdMs: null });
    expect(judgeHealth(closed, refused, answer)).toMatchObject({ holdMs: 900_000 });
  });

  test('that accepts the credentials again is sent one row, then one more with each row done', () => {
    const former = makeHealth({ code: 'credentials_refused' });
    const accepted = judgeHealth(former, { seen: 'answered' }, answer);
    expect(accepted).toEqual({ health: { ...former, failures: 0, sendWindow: 1 }, holdMs: 0 });
    expect(judgeAll([success, success], accepted.health)).toMatchObject({
      health: { sendWindow: 3 },
    });
  });

  test('that gets rows too fast is sent none for 1 s, longer if none is done meanwhile, up to 10 s', () => {
    const tooFast: Evidence = {
      seen: 'too fast',
      failure: toFailure('http_status', 'answered 429'),
    };
    const first = judgeHealth(null, tooFast, open);
    expect(first).toMatchObject({ health: { code: 'too_fast', sendWindow: 4 }, holdMs: 1_000 });
    expect(judgeHealth(first.health, tooFast, held)).toEqual({
      health: first.health,
      holdMs: null,
    });
    expect(judgeAll([tooFast], first.health).holdMs).toBe(2_000);
    // The answers to rows that were sent before the 429 come after it.
    const done = judgeHealth(first.health, success, held);
    expect(done).toEqual({ health: { ...first.health, failures: 0 }, holdMs: null });
    expect(judgeAll([tooFast], done.health).holdMs).toBe(1_000);
    expect(judgeAll([success, tooFast], first.health).holdMs).toBe(1_000);
    expect(judgeAll(Array(9).fill(tooFast), first.health).holdMs).toBe(10_000);
  });

  test('that asks to wait gets its time, whatever other requests say meanwhile', () => {
    const waiting = judgeHealth(null, askToWait(30_000), open);
    expect(waiting).toMatchObject({
      health: { code: 'retry_after', sendWindow: 4 },
      holdMs: 30_000,
    });
    for (const evidence of [success, silence])
      expect(judgeHealth(waiting.health, evidence, held)).toEqual({
        health: waiting.health,
        holdMs: null,
      });
  });
});

/** Milliseconds of a request to the service, and of one that it does not answer. */
const [requestMs, unansweredMs] = [100, 8_000];

/** Returns how long rows are sent within a send window, until the limit ends. */
function rampUpMs(health: Health | null): number {
  if (health?.sendWindow == null) return 0;
  return requestMs + rampUpMs(judgeAll(Array(health.sendWindow).fill(success), health).health);
}

describe.each([2, 20, 120])('after %i minutes, all rows are sent again within 15 s', (minutes) => {
  const endsAtMs = minutes * 60_000;

  test('in which the service did not answer, although the last question met its return', () => {
    let { health, holdMs } = judgeHealth(null, silence, open);
    for (let nowMs = 0; nowMs < endsAtMs; nowMs += Number(holdMs) + unansweredMs)
      ({ health, holdMs } = judgeHealth(health, silence, answer));
    const answered = judgeHealth(health, { seen: 'answered' }, answer).health;
    expect(unansweredMs + Number(holdMs) + requestMs + rampUpMs(answered)).toBeLessThan(15_000);
  });

  test('in which all rows of a kind failed', () => {
    let { health, holdMs } = judgeAll(Array(5).fill(failed()));
    for (let nowMs = 0; nowMs < endsAtMs; nowMs += Number(holdMs))
      ({ health, holdMs } = judgeHealth(health, failed(), open));
    expect(Number(holdMs) + rampUpMs(health)).toBeLessThan(15_000);
  });
});
