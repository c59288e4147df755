import { describe, expect, test } from 'vitest';
import { addDays, daysBetween } from '../../../src/core/time.ts';
import { backfillWindow, reconcileWindows, sliceEndOf } from '../../../src/sync/rescan/windows.ts';
import { orders } from '../../../src/sync/streams/orders.ts';
import { shipments } from '../../../src/sync/streams/shipments.ts';

const start = '2026-05-04';

/** The days that reconciliations on these days (numbers from the first) read, as a set. */
function covered(runs: readonly number[], oldest: string | null): Set<string> {
  const days = new Set<string>();
  let lastSliceEnd: string | null = null;
  for (const run of runs) {
    const windows = reconcileWindows(orders.rescan, { today: addDays(start, run), oldest, lastSliceEnd });
    for (const { after, before } of windows)
      for (let day = addDays(after ?? '', 1); day < (before ?? addDays(start, run + 1)); day = addDays(day, 1))
        days.add(day);
    lastSliceEnd = sliceEndOf(windows);
  }
  return days;
}
const between = (from: string, to: string) =>
  Array.from({ length: daysBetween(from, to) }, (_, index) => addDays(from, index));

describe('reconcileWindows', () => {
  test('a list that is not asked by day is read whole', () => {
    const now = { today: start, oldest: null, lastSliceEnd: null };
    expect(reconcileWindows(shipments.rescan, now)).toEqual([{ after: null, before: null }]);
  });

  test.each([0, 1, 40, 100, 365])('any 32 days on end, from day %i on, read all of 400 days', (first) => {
    const all = Array.from({ length: first + 32 }, (_, day) => day);
    let lastSliceEnd: string | null = null;
    for (const day of all.slice(0, first))
      lastSliceEnd = sliceEndOf(
        reconcileWindows(orders.rescan, { today: addDays(start, day), oldest: null, lastSliceEnd }),
      );
    const days = new Set<string>();
    for (const day of all.slice(first)) {
      const windows = reconcileWindows(orders.rescan, { today: addDays(start, day), oldest: null, lastSliceEnd });
      lastSliceEnd = sliceEndOf(windows);
      for (const { after, before } of windows)
        for (let at = addDays(after ?? '', 1); at < (before ?? addDays(start, day + 1)); at = addDays(at, 1))
          days.add(at);
    }
    const today = addDays(start, first + 31);
    expect(between(addDays(today, -369), today).filter((at) => !days.has(at))).toEqual([]);
  });

  test('days on which none ran leave out nothing, and older rows are reached too', () => {
    const oldest = '2023-01-01';
    const runs = Array.from({ length: 70 }, (_, index) => index * 3);
    const days = covered(runs, oldest);
    expect(between(oldest, start).filter((day) => !days.has(day))).toEqual([]);
  });
});

test('a backfill asks for a day more at both ends than it must, and takes absurd days for no bound', () => {
  expect(backfillWindow('2026-05-04', '2026-05-04')).toEqual({ after: '2026-05-02', before: '2026-05-06' });
  expect(backfillWindow('0001-01-01', '9999-12-31')).toEqual({ after: null, before: null });
});
