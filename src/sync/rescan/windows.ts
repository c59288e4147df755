import { addDays, daysBetween } from '../../core/time.ts';
import type { DayWindow } from '../../erp/rescan/rescans.ts';
import type { RescanPlan } from '../reading/stream.ts';

/** Number of slices into which the days before the recent ones are divided. Each reconciliation reads one slice. */
const sliceCount = 30;
/**
 * Number of days that a window is wider on each side. Date filters are exclusive (docs/interface.md, 2.5 Filters), and
 * whether they include other times of the given day is not known (2.6 Not shown).
 */
const slackDays = 2;
/** A bound outside these days is omitted, because the widened day could not be written as a date. */
const [firstDay, lastDay] = ['1900-01-01', '9999-01-01'];
/** Number of days that a reconciliation reaches back at least, to find rows that were never stored here. */
const reachDays = 400;

const everything: DayWindow = { after: null, before: null };

/** Returns a window that includes both days and all days between them; null means no bound. */
const toWindow = (from: string | null, to: string | null): DayWindow => ({
  after: from === null || from < firstDay ? null : addDays(from, -slackDays),
  before: to === null || to > lastDay ? null : addDays(to, slackDays),
});

/**
 * Returns the windows of a reconciliation: the recent days, and one slice of the older days. `sliceCount`
 * reconciliations cover all days. Each slice begins at the end of the last one, so skipped days leave no hole.
 * @param now today by the service's clock, the oldest stored day, and the end of the last slice
 */
export function planReconcileWindows(
  { recentDays }: RescanPlan,
  now: { readonly today: string; readonly oldest: string | null; readonly lastSliceEnd: string | null },
): DayWindow[] {
  if (recentDays === null) return [everything];
  const edge = addDays(now.today, -recentDays);
  const reach = addDays(now.today, -reachDays);
  const oldest = now.oldest !== null && now.oldest < reach ? now.oldest : reach;
  const size = Math.ceil(daysBetween(oldest, edge) / sliceCount);
  const last = now.lastSliceEnd;
  // The recent days move by a day each day. If less than one slice is left before them, start again at the oldest day.
  const continuesLastSlice = last !== null && last >= oldest && daysBetween(last, edge) >= size;
  const start = continuesLastSlice ? last : oldest;
  const isLast = daysBetween(start, edge) < 2 * size;
  return [toWindow(edge, null), toWindow(start, isLast ? edge : addDays(start, size))];
}

/** Returns the last day of the slice that a reconciliation with these windows reads; null if it reads none. */
export function findSliceEnd(windows: readonly DayWindow[]): string | null {
  const before = windows[1]?.before ?? null;
  return before === null ? null : addDays(before, -slackDays);
}

/** Returns the window of a backfill that includes both days; null means no bound. */
export const toBackfillWindow = toWindow;
