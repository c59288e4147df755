import { describe, expect, test } from 'vitest';
import type { Schedule } from '../../../config/schedules.ts';
import { dueNotBefore, missedTurns, nextDue, tickReachMs } from '../../../src/queue/next-due.ts';

const now = new Date('2026-03-29T00:59:30Z');
const turn = { client: 'default', job: 'pull-shipments' };
const every = (everyMs: number): Schedule => ({ kind: 'every', everyMs });
const cron = (pattern: string): Schedule => ({ kind: 'cron', pattern });
const minuteMs = 60_000;

describe('an interval', () => {
  test('comes round in a phase that each client and job has of its own, whenever a run began', () => {
    const turns = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'].map((client) => ({ client, job: 'pull-shipments' }));
    const phases = turns.map((one) => {
      const begun = [0, 13_000, 59_000, 3_600_000].map((ms) => new Date(now.getTime() + ms));
      const ends = begun.map((at) => (nextDue(every(2 * minuteMs), at, one)?.getTime() ?? 0) % (2 * minuteMs));
      expect(new Set(ends.map(Math.round)).size).toBe(1);
      return ends[0] ?? 0;
    });
    // Eight clients: no half of the interval holds them all.
    expect(Math.max(...phases) - Math.min(...phases)).toBeGreaterThan(minuteMs);
    const others = ['pull-orders', 'pull-inbounds'].map((job) =>
      nextDue(every(2 * minuteMs), now, { client: 'a', job }),
    );
    expect(others[0]).not.toEqual(others[1]);
  });

  test('leaves out a turn that comes too soon after a start, and never waits much longer than it says', () => {
    for (let ms = 0; ms < 120_000; ms += 1_700) {
      const begun = new Date(now.getTime() + ms);
      const waitMs = (nextDue(every(2 * minuteMs), begun, turn)?.getTime() ?? 0) - begun.getTime();
      expect(waitMs).toBeGreaterThanOrEqual(12_000);
      expect(waitMs).toBeLessThanOrEqual(132_001);
    }
  });

  test('begins within moments of a gate that opens where it comes round as often, else in its phase after that', () => {
    const opens = new Date('2026-03-29T02:00:00Z');
    const waitMs = (dueNotBefore(every(60 * minuteMs), opens, 3_605_000, turn)?.getTime() ?? 0) - opens.getTime();
    expect(waitMs).toBeGreaterThanOrEqual(0);
    expect(waitMs).toBeLessThan(20_000);
    const later = dueNotBefore(every(360 * minuteMs), opens, 3_605_000, turn);
    expect(later?.getTime()).toBeGreaterThan(opens.getTime());
    expect(dueNotBefore({ kind: 'off' }, opens, 3_605_000, turn)).toBeNull();
    // Asked at the full hour, the gate opens seconds after the next one.
    const after = new Date('2026-03-29T02:00:35Z');
    expect(dueNotBefore(cron('0 * * * *'), after, 3_605_000, turn)).toEqual(after);
    for (const minutes of [61, 65, 90]) {
      const begun = nextDue(every(minutes * minuteMs), now, turn) ?? now;
      const next = dueNotBefore(every(minutes * minuteMs), new Date(begun.getTime() + 3_605_000), 3_605_000, turn);
      expect(next?.getTime()).toBe(begun.getTime() + minutes * minuteMs);
    }
  });
});

test('cron is read in UTC, across the change to summer time, each client within half a minute', () => {
  const due = nextDue(cron('30 1 * * *'), now, turn)?.getTime() ?? 0;
  const tick = Date.parse('2026-03-29T01:30:00Z');
  expect(due - tick).toBeGreaterThanOrEqual(0);
  expect(due - tick).toBeLessThan(30_000);
  expect(nextDue(cron('30 1 * * *'), new Date(due), turn)?.getTime()).toBe(due + 24 * 60 * minuteMs);
  // Begun by hand between the tick and its own moment: today's turn still comes.
  expect(nextDue(cron('30 1 * * *'), new Date(due - 1), turn)?.getTime()).toBe(due);
});

test.each([{ kind: 'off' }, { kind: 'on-request' }] as const)('$kind never comes by itself', (schedule) => {
  expect(nextDue(schedule, now, turn)).toBeNull();
  expect(missedTurns(schedule, new Date(0), now)).toBe(0);
});

test.each([
  [every(2 * minuteMs), 0, 0],
  [every(2 * minuteMs), 119_000, 0],
  [every(2 * minuteMs), 121_000, 1],
  [every(2 * minuteMs), 611_000, 5],
  [every(1_000), 3_600_000_000, 10_000],
  [cron('0 * * * *'), 29 * minuteMs, 0],
  [cron('0 * * * *'), 3 * 60 * minuteMs, 3],
])('%j that begins %i ms late has missed %i turns', (schedule, lateMs, missed) => {
  expect(missedTurns(schedule, new Date(now.getTime() - lateMs), now)).toBe(missed);
});

test('a tick looks ahead to the next one, ten minutes at most', () => {
  expect(tickReachMs(every(2 * minuteMs))).toBe(2 * minuteMs);
  expect(tickReachMs(every(1_440 * minuteMs))).toBe(10 * minuteMs);
  expect(tickReachMs(cron('0 3 * * *'))).toBe(30_000);
});
