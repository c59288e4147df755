/**
 * Reconciles a stream, backfills it and fetches resources again. A row is marked as unlisted only
 * if two complete walks lack it, a read by id does not find it, or an operator accepts that it is
 * missing.
 */

import { addDays, daysBetween, isRealDay, toLocalDay, toUtcDay } from '../core/time.ts';
import { serviceNow } from '../schedule/run.ts';
import { underLease } from '../schedule/sql/leases.ts';
import { checkUnseen, TooManyExtrasError } from './check-unseen.ts';
import { unlist } from './commit-reading.ts';
import { readByIds } from './read-by-ids.ts';
import { forgetFindings } from './sql/findings.ts';
import type { Family } from './sql/mirror-tables.ts';
import { findLastWalked, type WalkedReconciliation } from './sql/reconciliations.ts';
import {
  type DayWindow,
  finishRescan,
  openRescan,
  type Rescan,
  startRescan,
} from './sql/rescans.ts';
import { findOldestDay } from './sql/rows-in-windows.ts';
import { drawReadNo } from './sql/stream-transaction.ts';
import type { UpsertResult } from './sql/upsert.ts';
import {
  type PullContext,
  type RescanContext,
  type RescanPlan,
  type StreamContext,
  toAgeColumns,
} from './stream.ts';
import { walkWindows } from './walk-windows.ts';

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

const everything: DayWindow = { after: null, before: null };

/** Returns a window that includes both days and all days between them; null means no bound. */
export const toWindow = (from: string | null, to: string | null): DayWindow => ({
  after: from === null || from < firstDay ? null : addDays(from, -slackDays),
  before: to === null || to > lastDay ? null : addDays(to, slackDays),
});

/**
 * Returns the windows of a reconciliation: the recent days, and one slice of the older days.
 * `sliceCount` reconciliations cover all days. Each slice begins at the end of the last one, so
 * skipped days leave no hole.
 * @param now today by the service's clock, the oldest stored day, and the end of the last slice
 */
export function planReconcileWindows(
  { recentDays }: RescanPlan,
  now: {
    readonly today: string;
    readonly oldest: string | null;
    readonly lastSliceEnd: string | null;
  },
): DayWindow[] {
  if (recentDays === null) return [everything];
  const edge = addDays(now.today, -recentDays);
  const reach = addDays(now.today, -reachDays);
  const oldest = now.oldest !== null && now.oldest < reach ? now.oldest : reach;
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

/**
 * The kind of process that starts a reconciliation. Only the same kind continues it after an
 * interruption: a command compares everything now, so it must not continue from the place that a
 * worker reached earlier.
 */
export type ReconcileStarter = 'worker' | 'command';

/**
 * Compares the service's list with the tables, column by column. Heals what differs and records it
 * as findings. Then checks the stored rows that were not listed. An interrupted reconciliation
 * continues from its stored place.
 * @param acceptMissing true if an operator confirms that all unlisted rows are gone; then the whole
 *   list is read
 * @throws TooManyExtrasError if the list lacks too many rows; everything else is healed and
 *   recorded before
 */
export async function reconcileStream(
  context: StreamContext,
  by: ReconcileStarter,
  acceptMissing = false,
): Promise<Rescan> {
  const { client, db, stream, config } = context;
  const background = by === 'worker';
  const days = { from: null, to: null };
  const request = { client, stream: stream.name, kind: 'reconcile', ...days, background } as const;

  let opened = await openRescan(db, request);
  if (acceptMissing && opened.windows !== null) {
    await endRescan(context, opened, 'restarted because an operator accepted the missing rows');
    opened = await openRescan(db, request);
  }

  const rescan = await runRescan(context, opened, {
    // The missing rows may be in any slice, so the whole list is read.
    chooseWindows: async (today, last) =>
      acceptMissing ? [everything] : chooseWindows(context, today, last),
    check: (walked) => checkUnseen(walked, acceptMissing),
  });
  await forgetFindings(db, client, stream.name, config.RETENTION_DAYS);

  if (rescan.doubt !== null) throw rescan.doubt;
  return rescan;
}

/** Reads a span of days, or everything if it has no bounds, and heals what differs. */
export async function backfillStream(context: StreamContext, opened: Rescan): Promise<Rescan> {
  const { from, to } = opened;
  const { dayColumn } = context.stream.rescan;
  const isInside = ({ parent }: Family) => {
    const day = readDay(parent[dayColumn], context.zone);
    if (day === null || !isRealDay(day)) return from === null && to === null;
    return (from === null || day >= from) && (to === null || day <= to);
  };

  return runRescan(context, opened, {
    chooseWindows: async () => [toWindow(from, to)],
    isWanted: isInside,
  });
}

/** What a rescan is made for. */
interface RescanPurpose {
  readonly chooseWindows: (
    today: string,
    last: WalkedReconciliation | null,
  ) => Promise<readonly DayWindow[]>;
  /** Returns true for families that should be written; default: all. */
  readonly isWanted?: (family: Family) => boolean;
  /** Runs after the walk. Returns why the list is doubted, for the error message. */
  readonly check?: (context: RescanContext) => Promise<readonly string[]>;
}

/** Walks the windows of a rescan from where it stopped, checks what they lacked, and ends it. */
async function runRescan(
  context: StreamContext,
  opened: Rescan,
  { chooseWindows, isWanted, check }: RescanPurpose,
): Promise<Rescan & { readonly doubt: TooManyExtrasError | null }> {
  const progress = { rescan: await beginRescan(context, opened, chooseWindows) };
  const rescanContext = { ...context, progress };

  await walkWindows(rescanContext, isWanted);

  const doubts = (await check?.(rescanContext)) ?? [];
  const doubt = doubts.length === 0 ? null : new TooManyExtrasError(context.stream.name, doubts);
  await endRescan(context, progress.rescan, doubt?.message ?? null);

  return { ...progress.rescan, doubt };
}

/**
 * The result of a refetch: the row was missing, stale or unchanged, or the service does not know
 * the id (absent).
 */
export type RefetchResult = 'missing' | 'stale' | 'unchanged' | 'absent';

/**
 * Reads one resource by id and heals what differs. What follows from a change is requested in any
 * case.
 * @returns null if it could not be read or decoded; the run's warnings and the quarantine say why
 */
export async function refetch(context: PullContext, id: number): Promise<RefetchResult | null> {
  const { stream } = context;
  const [found = null] = await readByIds(context, [id], {
    write: async (transaction, { families, written, absent, readNo }) => {
      await unlist(transaction, stream, absent, readNo);
      await stream.afterChanges?.(transaction, [id]);
      return toRefetchResult(families.length, written, absent.length);
    },
  });

  return found;
}

function toRefetchResult(
  found: number,
  written: UpsertResult,
  absent: number,
): RefetchResult | null {
  if (absent > 0) return 'absent';
  if (written.inserted.length > 0) return 'missing';
  if (written.changed.length > 0) return 'stale';
  return found > 0 ? 'unchanged' : null;
}

function readDay(value: unknown, zone: string): string | null {
  if (typeof value !== 'string') return null;
  return value.includes('T') ? toLocalDay(value, zone) : value;
}

async function chooseWindows(
  { db, client, run, dueNotBefore, stream }: StreamContext,
  today: string,
  last: WalkedReconciliation | null,
): Promise<readonly DayWindow[]> {
  // A run that is repeated before its next due time checks the doubtful span again. The next slice
  // would end the alarm.
  const nextTurn = last?.isDoubtful ? dueNotBefore(last.finishedAt, 0) : null;
  if (last !== null && nextTurn !== null && nextTurn > run.startedAt) return last.windows;
  const oldest = await findOldestDay(db, client, toAgeColumns(stream));
  const lastSliceEnd = findSliceEnd(last?.windows ?? []);
  return planReconcileWindows(stream.rescan, { today, oldest, lastSliceEnd });
}

/**
 * Begins a rescan: chooses and stores its windows. They stay the same if the rescan is interrupted
 * and continued.
 */
async function beginRescan(
  context: StreamContext,
  rescan: Rescan,
  chooseWindows: RescanPurpose['chooseWindows'],
): Promise<Rescan> {
  const { warehouse, signal, db, client, run, stream } = context;
  const { service } = context.state;
  service.firstMs ??= await warehouse.readClock(signal);
  service.lastMs ??= service.firstMs;
  if (rescan.windows !== null) return rescan;
  const now = serviceNow(context);
  const last = await findLastWalked(db, client, stream.name);
  const windows = await chooseWindows(toUtcDay(now.getTime()), last);
  // Only an earlier walk knows how many rows the service lists. Counting the stored rows would read
  // the whole table.
  const whole = rescan.kind === 'reconcile' || (rescan.from === null && rescan.to === null);
  const expected = whole ? (last?.fetched ?? null) : null;
  const readNo = await drawReadNo(db);
  return underLease(db, run.lease, (trx) =>
    startRescan(trx, rescan.id, { windows, expected, readNo }),
  );
}

async function endRescan(
  { db, run }: StreamContext,
  { id }: Rescan,
  error: string | null,
): Promise<void> {
  await underLease(db, run.lease, (trx) => finishRescan(trx, id, error));
}
