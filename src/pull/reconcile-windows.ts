/** Plans which days a reconciliation reads again. */

import { addDays, daysBetween } from '../core/time.ts';
import type { DayWindow } from './sql/unlisted.ts';
import type { RescanPlan } from './stream.ts';

/**
 * Number of recent days that each reconciliation reads of a list with a date filter. It reads older
 * days in slices, and any other list whole.
 */
const recentDays = 120;
/**
 * Number of slices into which the days before the recent ones are divided. Each reconciliation
 * reads one slice.
 */
const sliceCount = 30;
/**
 * Number of days that a window is wider on each side. Date filters are exclusive
 * (docs/interface.md, 2.5 Filters), and whether they include other times of the given day is not
 * known (2.6 Not shown).
 */
const slackDays = 2;
/**
 * A bound outside these days is omitted, because the widened day could not be written as a date.
 */
const [firstDay, lastDay] = ['1900-01-01', '9999-01-01'];
/**
 * Number of days that a reconciliation reaches back at least, to find rows that were never stored
 * here.
 */
const reachDays = 400;

/** Returns a window that includes both days and all days between them; null means no bound. */
export const toWindow = (from: string | null, to: string | null): DayWindow => ({
  after: from === null || from < firstDay ? null : addDays(from, -slackDays),
  before: to === null || to > lastDay ? null : addDays(to, slackDays),
});

/**
 * Returns the windows of a reconciliation: the recent days, and one slice of the older days.
 * `sliceCount` reconciliations cover all days. Each slice begins at the end of the last one, so
 * skipped days leave no hole.
 * @param now today by the service's clock, the oldest stored day, the end of the last slice, and
 *   the days after which `prune` deletes rows
 */
export function planReconcileWindows(
  { filter }: RescanPlan,
  now: {
    readonly today: string;
    readonly oldest: string | null;
    readonly lastSliceEnd: string | null;
    readonly mirrorDays?: number | undefined;
  },
): DayWindow[] {
  if (filter === null) return [toWindow(null, null)];
  const edge = addDays(now.today, -recentDays);
  const { mirrorDays = Number.POSITIVE_INFINITY } = now;
  // What was deleted would come back as missing.
  const reach = addDays(now.today, -Math.min(reachDays, mirrorDays - slackDays - 1));
  const isOlderKept = mirrorDays === Number.POSITIVE_INFINITY && (now.oldest ?? reach) < reach;
  const oldest = isOlderKept ? (now.oldest ?? reach) : reach;
  const size = Math.ceil(daysBetween(oldest, edge) / sliceCount);
  const last = now.lastSliceEnd;
  // The recent days move by a day each day. If less than one slice is left before them, start again
  // at the oldest day.
  const continuesLastSlice = last !== null && last >= oldest && daysBetween(last, edge) >= size;
  const start = continuesLastSlice ? last : oldest;
  const isLast = daysBetween(start, edge) < 2 * size;
  return [toWindow(edge, null), toWindow(start, isLast ? edge : addDays(start, size))];
}

/**
 * Returns the last day of the slice that a reconciliation with these windows reads; null if it
 * reads none.
 */
export function findSliceEnd(windows: readonly DayWindow[]): string | null {
  const before = windows[1]?.before ?? null;
  return before === null ? null : addDays(before, -slackDays);
}
