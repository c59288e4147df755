import { describe, expect, test } from 'vitest';
import type { Schedule } from '../../../config/schedules.ts';
import { countMissed, type JobKey, planNext } from '../../../src/schedule/plan-next.ts';

const now = new Date('2026-03-29T00:59:30Z');
const clientJob = { client: 'default', job: 'pull-shipments' };
const every = (everyMs: number): Schedule => ({ kind: 'every', everyMs });
const cron = (pattern: string): Schedule => ({ kind: 'cron', pattern });
const minuteMs = 60_000;
const findTurn = (schedule: Schedule, at: Date, key: JobKey) =>
  planNext(schedule, key, { kind: 'begin', at });
const findOwnTurn = (schedule: Schedule, earliest: Date, gapMs: number) =>
  planNext(schedule, clientJob, { kind: 'own-pace', earliest, gapMs });
const later = (ms: number) => new Date(now.getTime() + ms);

describe('an interval', () => {
  test('is due in a phase that depends on client and job, not on when a run began', () => {
    const clientJobs = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'].map((client) => ({
      client,
      job: 'pull-shipments',
    }));
    const phases = clientJobs.map((one) => {
      const begun = [0, 13_000, 59_000, 3_600_000].map((ms) => new Date(now.getTime() + ms));
      const offsets = begun.map(
        (at) => (findTurn(every(2 * minuteMs), at, one)?.getTime() ?? 0) % (2 * minuteMs),
      );
      expect(new Set(offsets.map(Math.round)).size).toBe(1);
      return offsets[0] ?? 0;
    });
    // Eight clients: no half of the interval holds them all.
    expect(Math.max(...phases) - Math.min(...phases)).toBeGreaterThan(minuteMs);
    const others = ['pull-orders', 'pull-inbounds'].map((job) =>
      findTurn(every(2 * minuteMs), now, { client: 'a', job }),
    );
    expect(others[0]).not.toEqual(others[1]);
  });

  test('skips a due time too soon after a start, and waits little longer than the interval', () => {
    for (let ms = 0; ms < 120_000; ms += 1_700) {
      const begun = new Date(now.getTime() + ms);
      const waitMs =
        (findTurn(every(2 * minuteMs), begun, clientJob)?.getTime() ?? 0) - begun.getTime();
      expect(waitMs).toBeGreaterThanOrEqual(12_000);
      expect(waitMs).toBeLessThanOrEqual(132_001);
    }
  });

  test('is due just after a gate opens if it is as short as the gap, else in its phase after that', () => {
    const opens = new Date('2026-03-29T02:00:00Z');
    const waitMs =
      (findOwnTurn(every(60 * minuteMs), opens, 3_605_000)?.getTime() ?? 0) - opens.getTime();
    expect(waitMs).toBeGreaterThanOrEqual(0);
    expect(waitMs).toBeLessThan(20_000);
    const later = findOwnTurn(every(360 * minuteMs), opens, 3_605_000);
    expect(later?.getTime()).toBeGreaterThan(opens.getTime());
    expect(findOwnTurn({ kind: 'off' }, opens, 3_605_000)).toBeNull();
    // If the gate was passed at the full hour, it opens seconds after the next full hour.
    const after = new Date('2026-03-29T02:00:35Z');
    expect(findOwnTurn(cron('0 * * * *'), after, 3_605_000)).toEqual(after);
    for (const minutes of [61, 65, 90]) {
      const begun = findTurn(every(minutes * minuteMs), now, clientJob) ?? now;
      const next = findOwnTurn(
        every(minutes * minuteMs),
        new Date(begun.getTime() + 3_605_000),
        3_605_000,
      );
      expect(next?.getTime()).toBe(begun.getTime() + minutes * minuteMs);
    }
  });
});

test('cron is read in UTC, also when summer time begins; each client is due within 30 s', () => {
  const due = findTurn(cron('30 1 * * *'), now, clientJob)?.getTime() ?? 0;
  const tick = Date.parse('2026-03-29T01:30:00Z');
  expect(due - tick).toBeGreaterThanOrEqual(0);
  expect(due - tick).toBeLessThan(30_000);
  expect(findTurn(cron('30 1 * * *'), new Date(due), clientJob)?.getTime()).toBe(
    due + 24 * 60 * minuteMs,
  );
  // A run that begins by hand between the tick and the due time does not replace today's run.
  expect(findTurn(cron('30 1 * * *'), new Date(due - 1), clientJob)?.getTime()).toBe(due);
});

test.each([{ kind: 'off' }, { kind: 'on-request' }] as const)(
  '$kind is never due by itself',
  (schedule) => {
    expect(findTurn(schedule, now, clientJob)).toBeNull();
  },
);

test.each([
  ['0 * * * *', 29 * minuteMs, 0],
  ['0 * * * *', 3 * 60 * minuteMs, 3],
  ['* * * * *', 20_000 * minuteMs, 100],
])('a run by %s that begins %i ms late has missed %i', (pattern, lateMs, missed) => {
  expect(countMissed(cron(pattern), later(-lateMs), now)).toBe(missed);
});

test.each([
  [59_000, 0],
  [61_000, 1],
  [305_000, 5],
])('a run by an interval of a minute that begins %i ms late has missed %i', (lateMs, missed) => {
  expect(countMissed(every(minuteMs), later(-lateMs), now)).toBe(missed);
});

describe('a job with two intervals', () => {
  const adaptive: Schedule = { kind: 'every', everyMs: 30_000, slowMs: 4 * minuteMs };
  const plan = (movedAgoMs: number | null, turnAt = later(20_000)) =>
    planNext(adaptive, clientJob, {
      kind: 'done',
      at: now,
      turnAt,
      movedAt: movedAgoMs === null ? null : later(-movedAgoMs),
    });

  test.each([
    [0, 20_000],
    [50 * minuteMs, 20_000],
    [100 * minuteMs, 50_000],
    [200 * minuteMs, 110_000],
    [3 * 24 * 60 * minuteMs, 230_000],
    [null, 230_000],
  ])('whose data last moved %s ms ago skips turns of the shorter one: due in %i ms', (ago, ms) => {
    expect(plan(ago)).toEqual(later(ms));
  });

  test('stays due if somebody made it due while its run was under way', () => {
    expect(plan(null, later(-1))).toEqual(later(-1));
  });
});

describe('a run that fails', () => {
  const plan = (members: { dueInMs?: number; failures?: number; retryAfterMs?: number }) => {
    const { dueInMs, failures = 1, retryAfterMs = 0 } = members;
    const turnAt = dueInMs === undefined ? null : later(dueInMs);
    const occasion = { kind: 'failed', at: now, turnAt, failures, retryAfterMs } as const;
    return planNext(every(minuteMs), clientJob, { ...occasion, isRetried: true });
  };

  test('is tried again at its turn, or after a pause that grows, whichever is first', () => {
    expect(plan({ dueInMs: minuteMs })).toEqual(later(minuteMs));
    expect(plan({ dueInMs: 24 * 60 * minuteMs })).toEqual(later(10 * minuteMs));
    expect(plan({ failures: 3 })).toEqual(later(40 * minuteMs));
    expect(plan({ failures: 40 })).toEqual(later(320 * minuteMs));
  });

  test('is not tried again before the Retry-After of the service', () => {
    expect(plan({ dueInMs: minuteMs, retryAfterMs: 90_000 })).toEqual(later(90_000));
  });

  test('that says itself when it is due gets no earlier retry', () => {
    const own = {
      kind: 'failed',
      at: now,
      failures: 1,
      retryAfterMs: 0,
      isRetried: false,
    } as const;
    const turnAt = later(60 * minuteMs);
    expect(planNext(every(minuteMs), clientJob, { ...own, turnAt })).toEqual(turnAt);
    expect(planNext(every(minuteMs), clientJob, { ...own, turnAt: null })).toBeNull();
  });
});
