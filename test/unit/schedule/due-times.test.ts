import { describe, expect, test } from 'vitest';
import type { Schedule } from '../../../config/schedules.ts';
import {
  countMissedTimes,
  findDueNotBefore,
  findNextDue,
} from '../../../src/schedule/sql/due-times.ts';

const now = new Date('2026-03-29T00:59:30Z');
const clientJob = { client: 'default', job: 'pull-shipments' };
const every = (everyMs: number): Schedule => ({ kind: 'every', everyMs });
const cron = (pattern: string): Schedule => ({ kind: 'cron', pattern });
const minuteMs = 60_000;

describe('an interval', () => {
  test('is due in a phase that depends on client and job, not on when a run began', () => {
    const clientJobs = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'].map((client) => ({
      client,
      job: 'pull-shipments',
    }));
    const phases = clientJobs.map((one) => {
      const begun = [0, 13_000, 59_000, 3_600_000].map((ms) => new Date(now.getTime() + ms));
      const offsets = begun.map(
        (at) => (findNextDue(every(2 * minuteMs), at, one)?.getTime() ?? 0) % (2 * minuteMs),
      );
      expect(new Set(offsets.map(Math.round)).size).toBe(1);
      return offsets[0] ?? 0;
    });
    // Eight clients: no half of the interval holds them all.
    expect(Math.max(...phases) - Math.min(...phases)).toBeGreaterThan(minuteMs);
    const others = ['pull-orders', 'pull-inbounds'].map((job) =>
      findNextDue(every(2 * minuteMs), now, { client: 'a', job }),
    );
    expect(others[0]).not.toEqual(others[1]);
  });

  test('skips a due time too soon after a start, and waits little longer than the interval', () => {
    for (let ms = 0; ms < 120_000; ms += 1_700) {
      const begun = new Date(now.getTime() + ms);
      const waitMs =
        (findNextDue(every(2 * minuteMs), begun, clientJob)?.getTime() ?? 0) - begun.getTime();
      expect(waitMs).toBeGreaterThanOrEqual(12_000);
      expect(waitMs).toBeLessThanOrEqual(132_001);
    }
  });

  test('is due just after a gate opens if it is as short as the gap, else in its phase after that', () => {
    const opens = new Date('2026-03-29T02:00:00Z');
    const waitMs =
      (findDueNotBefore(every(60 * minuteMs), opens, 3_605_000, clientJob)?.getTime() ?? 0) -
      opens.getTime();
    expect(waitMs).toBeGreaterThanOrEqual(0);
    expect(waitMs).toBeLessThan(20_000);
    const later = findDueNotBefore(every(360 * minuteMs), opens, 3_605_000, clientJob);
    expect(later?.getTime()).toBeGreaterThan(opens.getTime());
    expect(findDueNotBefore({ kind: 'off' }, opens, 3_605_000, clientJob)).toBeNull();
    // If the gate was passed at the full hour, it opens seconds after the next full hour.
    const after = new Date('2026-03-29T02:00:35Z');
    expect(findDueNotBefore(cron('0 * * * *'), after, 3_605_000, clientJob)).toEqual(after);
    for (const minutes of [61, 65, 90]) {
      const begun = findNextDue(every(minutes * minuteMs), now, clientJob) ?? now;
      const next = findDueNotBefore(
        every(minutes * minuteMs),
        new Date(begun.getTime() + 3_605_000),
        3_605_000,
        clientJob,
      );
      expect(next?.getTime()).toBe(begun.getTime() + minutes * minuteMs);
    }
  });
});

test('cron is read in UTC, also when summer time begins; each client is due within 30 s', () => {
  const due = findNextDue(cron('30 1 * * *'), now, clientJob)?.getTime() ?? 0;
  const tick = Date.parse('2026-03-29T01:30:00Z');
  expect(due - tick).toBeGreaterThanOrEqual(0);
  expect(due - tick).toBeLessThan(30_000);
  expect(findNextDue(cron('30 1 * * *'), new Date(due), clientJob)?.getTime()).toBe(
    due + 24 * 60 * minuteMs,
  );
  // A run that begins by hand between the tick and the due time does not replace today's run.
  expect(findNextDue(cron('30 1 * * *'), new Date(due - 1), clientJob)?.getTime()).toBe(due);
});

test.each([{ kind: 'off' }, { kind: 'on-request' }] as const)(
  '$kind is never due by itself',
  (schedule) => {
    expect(findNextDue(schedule, now, clientJob)).toBeNull();
  },
);

test.each([
  ['0 * * * *', 29 * minuteMs, 0],
  ['0 * * * *', 3 * 60 * minuteMs, 3],
  ['* * * * *', 20_000 * minuteMs, 10_000],
])('a run by %s that begins %i ms late has missed %i', (pattern, lateMs, missed) => {
  expect(countMissedTimes({ kind: 'cron', pattern }, new Date(now.getTime() - lateMs), now)).toBe(
    missed,
  );
});
