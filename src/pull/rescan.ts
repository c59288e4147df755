/**
 * Reconciles a stream, backfills it and fetches resources again. A row is marked as unlisted only
 * if two complete walks lack it, a read by id does not find it, or an operator accepts that it is
 * missing.
 */

import { CodedError } from '../core/errors.ts';
import { addDays, daysBetween, isRealDay, toLocalDay, toUtcDay } from '../core/time.ts';
import { serviceNow, warn } from '../schedule/run.ts';
import { underLease } from '../schedule/sql/leases.ts';
import { makeEmptyReading, unlist } from './commit.ts';
import { type ReadBatch, readByIds } from './read-by-ids.ts';
import {
  countRowsInWindows,
  type DayWindow,
  findOldestDay,
  findUnseenRows,
} from './sql/listed-rows.ts';
import type { ResourceRows } from './sql/mirror-tables.ts';
import {
  findLastWalked,
  finishRescan,
  forgetFindings,
  openRescan,
  type Rescan,
  startRescan,
  type WalkedReconciliation,
} from './sql/rescans.ts';
import { drawReadNo, type RunTransaction } from './sql/stream-transaction.ts';
import { recordAbsences } from './sql/unlisted.ts';
import type { PullContext, RescanContext, RescanPlan, StreamContext } from './stream.ts';
import {
  commitProgress,
  readRescanByIds,
  recordRescanFindings,
  walkWindows,
} from './walk-windows.ts';

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
 * @param now today by the service's clock, the oldest stored day, the end of the last slice, and
 *   the days after which `prune` deletes rows
 */
export function planReconcileWindows(
  { recentDays }: RescanPlan,
  now: {
    readonly today: string;
    readonly oldest: string | null;
    readonly lastSliceEnd: string | null;
    readonly mirrorDays?: number | undefined;
  },
): DayWindow[] {
  if (recentDays === null) return [everything];
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
  const isInside = ({ parent }: ResourceRows) => {
    const day = readDay(parent[dayColumn], context.zone);
    if (day === null || !isRealDay(day)) return from === null && to === null;
    return (from === null || day >= from) && (to === null || day <= to);
  };

  return runRescan(context, opened, {
    chooseWindows: async () => [toWindow(from, to)],
    isWanted: isInside,
  });
}

function readDay(value: unknown, zone: string): string | null {
  if (typeof value !== 'string') return null;
  return value.includes('T') ? toLocalDay(value, zone) : value;
}

/** What a rescan is made for. */
interface RescanPurpose {
  readonly chooseWindows: (
    today: string,
    last: WalkedReconciliation | null,
  ) => Promise<readonly DayWindow[]>;
  /** Returns true for resources that should be written; default: all. */
  readonly isWanted?: (resource: ResourceRows) => boolean;
  /** Runs after the walk. Returns why the list is doubted, for the error message. */
  readonly check?: (context: RescanContext) => Promise<readonly string[]>;
}

/** Walks the windows of a rescan from where it stopped, checks what they lacked, and ends it. */
async function runRescan(
  context: StreamContext,
  opened: Rescan,
  { chooseWindows: choose, isWanted, check }: RescanPurpose,
): Promise<Rescan & { readonly doubt: TooManyExtrasError | null }> {
  const progress = { rescan: await beginRescan(context, opened, choose) };
  const rescanContext = { ...context, progress };

  await walkWindows(rescanContext, isWanted);

  const doubts = (await check?.(rescanContext)) ?? [];
  const doubt = doubts.length === 0 ? null : new TooManyExtrasError(context.stream.name, doubts);
  await endRescan(context, progress.rescan, doubt?.message ?? null);

  return { ...progress.rescan, doubt };
}

/**
 * Begins a rescan: chooses and stores its windows. They stay the same if the rescan is interrupted
 * and continued.
 */
async function beginRescan(
  context: StreamContext,
  rescan: Rescan,
  choose: RescanPurpose['chooseWindows'],
): Promise<Rescan> {
  const { warehouse, signal, db, client, run, stream } = context;
  const { service } = context.state;
  service.firstMs ??= await warehouse.readClock(signal);
  service.lastMs ??= service.firstMs;
  if (rescan.windows !== null) return rescan;

  const last = await findLastWalked(db, client, stream.name);
  const windows = await choose(toUtcDay(serviceNow(context).getTime()), last);
  // Only an earlier walk knows how many rows the service lists. Counting the stored rows would read
  // the whole table.
  const isWhole = rescan.kind === 'reconcile' || (rescan.from === null && rescan.to === null);
  const expected = isWhole ? (last?.fetched ?? null) : null;

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

async function chooseWindows(
  { db, client, run, config, dueNotBefore, stream }: StreamContext,
  today: string,
  last: WalkedReconciliation | null,
): Promise<readonly DayWindow[]> {
  // A run that is repeated before its next due time checks the doubtful span again. The next slice
  // would end the alarm.
  const nextTurn = last?.isDoubtful ? dueNotBefore(last.finishedAt, 0) : null;
  if (last !== null && nextTurn !== null && nextTurn > run.startedAt) return last.windows;

  const oldest = await findOldestDay(db, client, stream.rescan);
  const lastSliceEnd = findSliceEnd(last?.windows ?? []);
  const { MIRROR_DAYS: mirrorDays } = config;
  return planReconcileWindows(stream.rescan, { today, oldest, lastSliceEnd, mirrorDays });
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
    write: async (transaction, batch) => {
      await unlist(transaction, stream, batch.absent, batch.readNo);
      await stream.afterChanges?.(transaction, [id]);
      return toRefetchResult(batch);
    },
  });

  return found;
}

function toRefetchResult({ absent, written, resources }: ReadBatch): RefetchResult | null {
  if (absent.length > 0) return 'absent';
  if (written.inserted.length > 0) return 'missing';
  if (written.changed.length > 0) return 'stale';
  return resources.length > 0 ? 'unchanged' : null;
}

/**
 * If a list lacks more rows than this, and a larger share than `toleratedShare`, we doubt the list
 * and mark no row.
 */
const toleratedExtras = 20;
const toleratedShare = 0.01;
/** Number of rows that are handled at a time when an operator accepts what is missing. */
const acceptBatchSize = 500;

/** An error for a list of the service that lacks too many of our rows to be believed. */
class TooManyExtrasError extends CodedError {
  constructor(stream: string, doubts: readonly string[]) {
    super(
      'too_many_extras',
      `${stream}: the service's list lacks ${doubts.join(' and ')}; ` +
        'none of these was marked as unlisted. Check that this is the right account ' +
        '(WAREHOUSE_BASE_URL, WAREHOUSE_USERNAME) and that it lists everything. ' +
        'If the service has deleted the rows, run: ' +
        `fulfilment-sync reconcile ${stream} --accept-missing`,
    );
  }
}

/**
 * Checks stored rows that the list should have shown but did not. If the stream has a read by id,
 * reads them and marks those that the service does not know. Otherwise marks them after two
 * complete walks lacked them. Judges each window separately, so that one doubtful window does not
 * stop the others.
 * @param accept true if an operator confirms that all missing rows are gone
 * @returns for each window in which too many rows are missing: a description for the error message
 */
async function checkUnseen(context: RescanContext, accept: boolean): Promise<readonly string[]> {
  const { stream, progress } = context;
  const { rescan } = progress;
  if (!rescan.fullList) {
    warn(
      context,
      `${stream.name}: the list could not be read to its end, so no row was marked as unlisted`,
    );
    return [];
  }
  // An empty list proves nothing, even if an operator accepts it.
  if (accept && rescan.fetched > 0) {
    await acceptUnseen(context);
    return [];
  }

  const doubts: string[] = [];
  const lacking = new Set<number>();
  for (const window of rescan.windows ?? []) {
    const found = await findInWindow(context, window);
    if (found.unseen.length === 0) continue;

    const isBelieved = rescan.fetched > 0 && (await checkWindow(context, found));
    if (!isBelieved) doubts.push(describeDoubt(found, window));
    else if (stream.get === null) for (const id of found.unseen) lacking.add(id);
  }
  if (stream.get === null && rescan.fetched > 0) await unlistAfterTwoWalks(context, [...lacking]);

  return doubts;
}

/** Rows that a window lacks. */
interface UnseenInWindow {
  /** Ids of the rows; one more than `bound` at most. */
  readonly unseen: readonly number[];
  /** Number of rows that it may lack. */
  readonly bound: number;
  /** Number of rows that are stored in it. */
  readonly stored: number;
}

/** Finds rows that a window lacks: no more ids than it takes to doubt the list. */
async function findInWindow(context: RescanContext, window: DayWindow): Promise<UnseenInWindow> {
  const { db, client, stream, progress } = context;
  const place = { age: stream.rescan, serviceNow: serviceNow(context) };
  const asked = { ...progress.rescan, windows: [window] };

  const stored = await countRowsInWindows(db, client, place, [window]);
  const bound = Math.max(toleratedExtras, Math.floor(stored * toleratedShare));
  const unseen = await findUnseenRows(db, asked, place, { limit: bound + 1 });
  return { unseen, bound, stored };
}

/**
 * Checks the rows that one window lacks, by id if the service has such a read.
 * @returns false if too many are missing to believe the list
 */
async function checkWindow(
  context: RescanContext,
  { unseen, bound }: UnseenInWindow,
): Promise<boolean> {
  const isWithinBound = unseen.length <= bound;
  if (context.stream.get === null) return isWithinBound;
  if (!isWithinBound) return sampleUnseen(context, unseen);

  await readUnseen(context, unseen);
  return true;
}

function describeDoubt(
  { unseen, bound, stored }: UnseenInWindow,
  { after, before }: DayWindow,
): string {
  const count = `${unseen.length}${unseen.length > bound ? ' or more' : ''}`;
  const from = after === null ? '' : ` after ${after}`;
  const to = before === null ? '' : ` before ${before}`;
  return `${count} of the ${stored} rows${from}${to} that are stored here`;
}

/** Marks all rows that were not listed and that the service does not know by id either. */
async function acceptUnseen(context: RescanContext): Promise<void> {
  const { db, stream, progress } = context;
  const asked = progress.rescan;
  const place = { age: stream.rescan, serviceNow: serviceNow(context) };

  for (let afterId: number | null = null; ; ) {
    const unseen: readonly number[] = await findUnseenRows(db, asked, place, {
      limit: acceptBatchSize,
      afterId,
    });
    const last = unseen.at(-1);
    if (last === undefined) return;

    if (stream.get === null) await commitUnlisted(context, async () => unseen);
    else await readUnseen(context, unseen);
    context.onProgress?.(progress.rescan);
    afterId = last;
  }
}

/**
 * Reads a sample of unseen rows by id, because too many rows are missing to believe the list. The
 * service may return some shipments only by id (docs/interface.md, 10.6 Not shown). If it knows all
 * rows of the sample, the list is fine.
 * @returns false if the service does not know one of them; then nothing is written
 */
async function sampleUnseen(context: RescanContext, unseen: readonly number[]): Promise<boolean> {
  const sample = unseen.slice(0, toleratedExtras + 1);
  try {
    await readRescanByIds(context, sample, async (_transaction, { absent }) => {
      if (absent.length > 0) throw new SampleLackedError();
      return {};
    });
  } catch (error) {
    if (error instanceof SampleLackedError) return false;
    throw error;
  }

  warn(
    context,
    `${context.stream.name}: ${unseen.length} or more rows are not listed, ` +
      'but the service returns them by id',
  );
  return true;
}

/** Rolls back the transaction of a sample, because one of its rows is unknown to the service. */
class SampleLackedError extends CodedError {
  constructor() {
    super('sample_lacked', 'The service does not know one of the rows by id');
  }
}

/** Reads rows by id, and marks those that the service does not know as unlisted. */
const readUnseen = (context: RescanContext, unseen: readonly number[]): Promise<void> =>
  readRescanByIds(context, unseen, (transaction, { absent, readNo }) =>
    unlistAndRecord(transaction, context, absent, readNo),
  );

/**
 * Notes that this walk lacked the rows, and marks those that two complete walks in a row have
 * lacked.
 */
async function unlistAfterTwoWalks(
  context: RescanContext,
  unseen: readonly number[],
): Promise<void> {
  const { stream, progress, run } = context;
  const { startedAt, id } = progress.rescan;
  // After an interruption, rows that polls found unchanged in between are not known, and an absence
  // must not count twice.
  if (startedAt !== null && startedAt < run.startedAt) {
    if (unseen.length > 0)
      warn(
        context,
        `${stream.name}: interrupted, so no row was marked as unlisted; ` +
          'the next reconciliation checks again',
      );
    return;
  }

  await commitUnlisted(context, (transaction) =>
    recordAbsences(transaction, { pass: 'reconcile', rescanId: id }, unseen),
  );
}

/**
 * Marks rows that the list lacked. The marks have the number of the walk's first request, so later
 * readings win.
 */
async function commitUnlisted(
  context: RescanContext,
  find: (transaction: RunTransaction) => Promise<readonly number[]>,
): Promise<void> {
  const readNo = context.progress.rescan.readNo ?? 0;
  await commitProgress(context, makeEmptyReading(readNo), async (transaction) =>
    unlistAndRecord(transaction, context, await find(transaction), readNo),
  );
}

/** Marks rows as unlisted, and records them as findings of the rescan. */
async function unlistAndRecord(
  transaction: RunTransaction,
  context: RescanContext,
  ids: readonly number[],
  readNo: number,
): Promise<{ readonly extra: number }> {
  const gone = await unlist(transaction, context.stream, ids, readNo);
  await recordRescanFindings(transaction, context, 'extra', gone);

  return { extra: gone.length };
}
