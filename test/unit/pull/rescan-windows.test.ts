import { describe, expect, test } from 'vitest';
import { addDays, daysBetween } from '../../../src/core/time.ts';
import {
  findSliceEnd,
  planReconcileWindows,
  toWindow,
} from '../../../src/pull/reconcile-windows.ts';
import { orders } from '../../../src/pull/streams/orders.ts';
import { shipments } from '../../../src/pull/streams/shipments.ts';

const start = '2026-05-04';

/**
 * Returns the days that reconciliations read which run on the days `runs`; day 0 is `start`. Those
 * before the day `first` run, too, but do not count.
 */
function findCoveredDays(
  runs: readonly number[],
  { oldest = null, first = 0 }: { oldest?: string | null; first?: number },
): Set<string> {
  const days = new Set<string>();
  let lastSliceEnd: string | null = null;
  for (const run of runs) {
    const windows = planReconcileWindows(orders.rescan, {
      today: addDays(start, run),
      oldest,
      lastSliceEnd,
    });
    for (const { after, before } of run < first ? [] : windows)
      for (
        let day = addDays(after ?? '', 1);
        day < (before ?? addDays(start, run + 1));
        day = addDays(day, 1)
      )
        days.add(day);
    lastSliceEnd = findSliceEnd(windows);
  }
  return days;
}
const listDays = (from: string, to: string) =>
  Array.from({ length: daysBetween(from, to) }, (_, index) => addDays(from, index));

describe('planReconcileWindows', () => {
  test('a list that is not filtered by day is read whole', () => {
    const now = { today: start, oldest: null, lastSliceEnd: null };
    expect(planReconcileWindows(shipments.rescan, now)).toEqual([{ after: null, before: null }]);
  });

  test.each([0, 1, 40, 100, 365])(
    '32 daily runs from day %i on read each of the last 370 days',
    (first) => {
      const runs = Array.from({ length: first + 32 }, (_, day) => day);
      const days = findCoveredDays(runs, { first });
      const today = addDays(start, first + 31);
      expect(listDays(addDays(today, -369), today).filter((at) => !days.has(at))).toEqual([]);
    },
  );

  test('days that prune has deleted are not read again', () => {
    const now = { today: start, oldest: '2023-01-01', lastSliceEnd: null };
    const windows = planReconcileWindows(orders.rescan, { ...now, mirrorDays: 200 });
    expect(windows.map(({ after }) => after)).toEqual([addDays(start, -122), addDays(start, -199)]);
  });

  test('days without a run leave out nothing, and the oldest rows are reached too', () => {
    const oldest = '2023-01-01';
    const runs = Array.from({ length: 70 }, (_, index) => index * 3);
    const days = findCoveredDays(runs, { oldest });
    expect(listDays(oldest, start).filter((day) => !days.has(day))).toEqual([]);
  });
});

test('a backfill adds a day at both ends, and takes extreme days as no bound', () => {
  expect(toWindow('2026-05-04', '2026-05-04')).toEqual({
    after: '2026-05-02',
    before: '2026-05-06',
  });
  expect(toWindow('0001-01-01', '9999-12-31')).toEqual({ after: null, before: null });
});
