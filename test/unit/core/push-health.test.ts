import { describe, expect, test } from 'vitest';
import { type Evidence, type Health, judgeHealth } from '../../../src/core/push-health.ts';

const open = { isHeld: false, byProber: false };
const held = { isHeld: true, byProber: false };
const prober = { isHeld: true, byProber: true };
const failed = (isNew = true): Evidence => ({ seen: 'failure', reason: 'answered 500', isNew });
const success: Evidence = { seen: 'success' };
const silence: Evidence = { seen: 'no answer', reason: 'no connection' };
const refused: Evidence = { seen: 'credentials refused', reason: 'refused' };
const asked = (ms: number): Evidence => ({ seen: 'asked to wait', reason: 'asked to wait', ms });
const of = (changes: Partial<Health> = {}): Health => ({
  code: 'kind_failing',
  reason: 'x',
  failures: 5,
  sendWindow: 1,
  ...changes,
});

/** What follows from one after the other, none of it while held. */
function following(evidence: readonly Evidence[], from: Health | null = null) {
  return evidence.reduce((former, one) => judgeHealth(former.health, one, open), {
    health: from,
    holdMs: null,
  } as ReturnType<typeof judgeHealth>);
}

describe('a kind', () => {
  test('is held when five distinct rows of it failed, and then tried one row at a time', () => {
    expect(following(Array(4).fill(failed()))).toMatchObject({
      health: { failures: 4, sendWindow: null },
      holdMs: null,
    });
    const fifth = following(Array(5).fill(failed()));
    expect(fifth).toMatchObject({
      health: { code: 'kind_failing', reason: 'answered 500', failures: 5, sendWindow: 1 },
    });
    expect(fifth.holdMs).toBeCloseTo(250 * 1.15 ** 5, 0);
  });

  test('is not held by a row that fails again and again, nor where others get through', () => {
    expect(following(Array(100).fill(failed(false)))).toEqual({ health: null, holdMs: null });
    const four = Array(4).fill(failed());
    expect(following([...four, success, ...four])).toMatchObject({ health: { failures: 4, sendWindow: null } });
    expect(following([...four, success])).toEqual({ health: null, holdMs: 0 });
  });

  test('is held a little longer with each row that fails, at most a minute; also where only rows are left that failed before', () => {
    const pauses: (number | null)[] = [];
    let health: Health | null = of();
    for (let times = 0; times < 60; times++) {
      const next = judgeHealth(health, failed(times % 2 === 0), open);
      pauses.push(next.holdMs);
      health = next.health;
    }
    expect(pauses).toEqual(pauses.toSorted((one, other) => Number(one) - Number(other)));
    expect(pauses.at(-1)).toBe(60_000);
    // Some dozen rows that fail before one gets through do not keep the others for minutes.
    expect(pauses.slice(0, 20).reduce((sum: number, ms) => sum + Number(ms), 0)).toBeLessThan(60_000);
  });

  test('is not held longer for rows that were under way when the hold began', () => {
    expect(judgeHealth(of(), failed(), held)).toEqual({ health: of(), holdMs: null });
    const parked = of({ code: 'kind_parked' });
    expect(judgeHealth(parked, failed(), held)).toEqual({ health: parked, holdMs: null });
  });

  test('that gets through again is sent one row more at a time with each, and half as many where one fails', () => {
    expect(judgeHealth(of(), success, held)).toEqual({ health: of({ failures: 0, sendWindow: 2 }), holdMs: 0 });
    expect(following(Array(14).fill(success), of())).toMatchObject({ health: { sendWindow: 15 } });
    expect(following(Array(15).fill(success), of())).toEqual({ health: null, holdMs: 0 });
    expect(following([failed()], of({ failures: 0, sendWindow: 8 }))).toMatchObject({
      health: { sendWindow: 4, failures: 1 },
      holdMs: null,
    });
    expect(following([failed(false)], of({ sendWindow: 8 }))).toEqual({ health: of({ sendWindow: 8 }), holdMs: null });
  });

  test('whose path the service does not have is left alone for a quarter of an hour', () => {
    const parked = following([{ seen: 'no route', reason: 'answered 404' }]);
    expect(parked).toMatchObject({ health: { code: 'kind_parked', sendWindow: 1 }, holdMs: 900_000 });
    // Then one row is tried; that it fails for another reason is another matter.
    expect(following([failed()], parked.health)).toMatchObject({ health: { code: 'kind_failing' } });
    expect(following([success], parked.health)).toMatchObject({ health: { sendWindow: 2 } });
  });
});

describe('a client', () => {
  test('that does not answer is asked again after 5 s, then after twice as long each time, at most a minute', () => {
    const first = judgeHealth(null, silence, open);
    expect(first).toEqual({
      health: { code: 'breaker_open', reason: 'no connection', failures: 1, sendWindow: 1 },
      holdMs: 5_000,
    });
    const again = (health: Health | null) => judgeHealth(health, silence, prober);
    const [second, third] = [again(first.health), again(again(first.health).health)];
    expect([second.holdMs, third.holdMs]).toEqual([10_000, 20_000]);
    expect(again(of({ code: 'breaker_open', failures: 9 })).holdMs).toBe(60_000);
  });

  test('is held on only by who asks on behalf of all: what was under way says nothing new', () => {
    const former = of({ code: 'breaker_open', failures: 1 });
    expect(judgeHealth(former, silence, held)).toEqual({ health: former, holdMs: null });
    expect(judgeHealth(former, success, held)).toEqual({ health: former, holdMs: null });
    const closed = of({ code: 'credentials_refused' });
    expect(judgeHealth(closed, asked(1_000), held)).toEqual({ health: closed, holdMs: null });
    expect(judgeHealth(closed, refused, prober)).toMatchObject({ holdMs: 900_000 });
  });

  test('that lets us in again is sent one row, then more with each that gets through', () => {
    const former = of({ code: 'credentials_refused' });
    const letIn = judgeHealth(former, { seen: 'let in' }, prober);
    expect(letIn).toEqual({ health: { ...former, failures: 0, sendWindow: 1 }, holdMs: 0 });
    expect(following([success, success], letIn.health)).toMatchObject({ health: { sendWindow: 3 } });
  });

  test('that asks to wait gets its time, whatever comes in meanwhile', () => {
    const waiting = judgeHealth(null, asked(30_000), open);
    expect(waiting).toMatchObject({ health: { code: 'retry_after', sendWindow: 4 }, holdMs: 30_000 });
    for (const evidence of [success, silence])
      expect(judgeHealth(waiting.health, evidence, held)).toEqual({ health: waiting.health, holdMs: null });
  });
});
