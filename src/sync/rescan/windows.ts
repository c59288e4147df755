import { addDays, daysBetween } from '../../core/time.ts';
import type { DayWindow } from '../../erp/rescan/rescans.ts';
import type { RescanPlan } from '../reading/stream.ts';

/** Everything older than what each reconciliation reads is read once in this many of them. */
const slices = 30;
/** Filters are exclusive, and whether the same day of a date-time counts is not shown (interface.md, Pagination). */
const slack = 2;
/** Beyond these a bound is none: days before and after could not be written any more. */
const [firstDay, lastDay] = ['1900-01-01', '9999-01-01'];
/** How far back a reconciliation looks for rows that were never stored here. */
const reachDays = 400;

const everything: DayWindow = { after: null, before: null };

/** A day window that surely holds all of these days, both inclusive. */
const windowAround = (from: string | null, to: string | null): DayWindow => ({
  after: from === null || from < firstDay ? null : addDays(from, -slack),
  before: to === null || to > lastDay ? null : addDays(to, slack),
});

/**
 * What a reconciliation reads: the recent days, and one slice of those before, so that `slices` of them cover all. Each
 * slice begins where the last one ended, so none is left out when days are skipped.
 * @param now today by the service's clock, the oldest day stored here, and the end of the slice read last
 */
export function reconcileWindows(
  { recentDays }: RescanPlan,
  now: { readonly today: string; readonly oldest: string | null; readonly lastSliceEnd: string | null },
): DayWindow[] {
  if (recentDays === null) return [everything];
  const edge = addDays(now.today, -recentDays);
  const reach = addDays(now.today, -reachDays);
  const oldest = now.oldest !== null && now.oldest < reach ? now.oldest : reach;
  const size = Math.ceil(daysBetween(oldest, edge) / slices);
  const last = now.lastSliceEnd;
  // The edge moves on by a day each day: what is left before it must be worth a slice, else it begins anew.
  const goesOn = last !== null && last >= oldest && daysBetween(last, edge) >= size;
  const start = goesOn ? last : oldest;
  const isLast = daysBetween(start, edge) < 2 * size;
  return [windowAround(edge, null), windowAround(start, isLast ? edge : addDays(start, size))];
}

/** The last day of the slice that a reconciliation with these windows read; null where it read none. */
export function sliceEndOf(windows: readonly DayWindow[]): string | null {
  const before = windows[1]?.before ?? null;
  return before === null ? null : addDays(before, -slack);
}

/** What a backfill asks of the list; null: no bound. */
export const backfillWindow = windowAround;
