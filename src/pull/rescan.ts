/**
 * Reads windows of a stream again: to reconcile it, or to backfill it. A row is marked as unlisted
 * only if two complete walks lack it, a read by id does not find it, or an operator accepts that it
 * is unlisted.
 */

import { CodedError, LeaseLostError, StoppedError } from '../core/errors.ts';
import { dayMs, isRealDay, toLocalDay, toUtcDay } from '../core/time.ts';
import { type RunContext, serviceNow, throwFirst, warn } from '../schedule/run.ts';
import { underLease } from '../schedule/sql/leases.ts';
import {
  type CommittedPage,
  commitReading,
  makeEmptyReading,
  type Reading,
  unlist,
} from './commit.ts';
import type { ReadResource } from './decode.ts';
import { readByIds } from './read-by-ids.ts';
import { findSliceEnd, planReconcileWindows, toWindow } from './reconcile-windows.ts';
import type { ResourceRows } from './sql/mirror-tables.ts';
import {
  findBackgroundBackfills,
  findLastWalked,
  finishRescan,
  openRescan,
  type Rescan,
  type RescanStep,
  readReconciledTimes,
  recordFindings,
  saveRescan,
  startRescan,
  type WalkedReconciliation,
} from './sql/rescans.ts';
import { drawReadNo, type RunTransaction } from './sql/stream-transaction.ts';
import {
  countRowsInWindow,
  type DayWindow,
  findOldestDay,
  findUnlistedRows,
  forgetUnlistedReads,
  recordUnlistedReads,
} from './sql/unlisted.ts';
import { listIds } from './sql/upsert.ts';
import { findWaiting, hastenReads, requestMissingParcelReads } from './sql/waiting-reads.ts';
import { type RescanContext, type Stream, type StreamContext, toRescanContext } from './stream.ts';
import { rereadAuthorizations } from './streams/authorizations.ts';
import { requestOrdersOfShipments } from './streams/orders.ts';
import { readIds, type StreamPage, toDateFilter, type WalkedPage, walkList } from './walk.ts';

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
  const { client, db, stream } = context;
  const days = { from: null, to: null, background: by === 'worker' };
  const request = { client, stream: stream.name, kind: 'reconcile', ...days } as const;

  let opened = await openRescan(db, request);
  if (acceptMissing && opened.windows !== null) {
    await endRescan(context, opened, 'restarted because an operator accepted the missing rows');
    opened = await openRescan(db, request);
  }

  const begun = await beginRescan(context, opened, acceptMissing);
  const walked = await walkWindows(begun, () => true);

  const doubts = await checkUnlisted(walked, acceptMissing);
  const doubt = doubts.length === 0 ? null : new TooManyExtrasError(stream.name, doubts);
  await endRescan(context, opened, doubt?.message ?? null);

  if (doubt !== null) throw doubt;
  return walked.progress.rescan;
}

/** Reads a span of days, or everything if it has no bounds, and heals what differs. */
export async function backfillStream(context: StreamContext, opened: Rescan): Promise<Rescan> {
  const { from, to } = opened;
  const [dayColumn] = context.stream.rescan.dates;
  const isInside = ({ parent }: ResourceRows) => {
    const day = readDay(parent[dayColumn], context.zone);
    if (day === null || !isRealDay(day)) return from === null && to === null;
    return (from === null || day >= from) && (to === null || day <= to);
  };

  const { progress } = await walkWindows(await beginRescan(context, opened), isInside);
  await endRescan(context, opened, null);

  return progress.rescan;
}

function readDay(value: unknown, zone: string): string | null {
  if (typeof value !== 'string') return null;
  return value.includes('T') ? toLocalDay(value, zone) : value;
}

/**
 * Begins a rescan: chooses and stores its windows. They stay the same if the rescan is interrupted
 * and continued.
 */
async function beginRescan(
  context: StreamContext,
  rescan: Rescan,
  acceptMissing = false,
): Promise<RescanContext> {
  const { warehouse, signal, db, client, run, stream } = context;
  const { service } = context.state;
  service.firstMs ??= await warehouse.readClock(signal);
  service.lastMs ??= service.firstMs;
  if (rescan.windows !== null) return { ...context, progress: { rescan } };

  const last = await findLastWalked(db, client, stream.name);
  // The missing rows may be in any slice, so the whole list is read.
  const windows =
    rescan.kind === 'backfill' || acceptMissing
      ? [toWindow(rescan.from, rescan.to)]
      : await planReconciliation(context, last);
  // Only an earlier walk knows how many rows the service lists. Counting the stored rows would read
  // the whole table.
  const isWhole = rescan.from === null && rescan.to === null;
  const expected = isWhole ? (last?.fetched ?? null) : null;

  const readNo = await drawReadNo(db);
  const started = await underLease(db, run.lease, (trx) =>
    startRescan(trx, rescan.id, { windows, expected, readNo }),
  );
  return { ...context, progress: { rescan: started } };
}

async function endRescan({ db, run }: StreamContext, { id }: Rescan, error: string | null) {
  await underLease(db, run.lease, (trx) => finishRescan(trx, id, error));
}

/** Returns the windows of a reconciliation that begins now. */
async function planReconciliation(
  context: StreamContext,
  last: WalkedReconciliation | null,
): Promise<readonly DayWindow[]> {
  const { db, client, run, config, dueNotBefore, stream } = context;
  const { MIRROR_DAYS: mirrorDays } = config;
  // A run that is repeated before its next due time checks the doubtful span again. The next slice
  // would end the alarm.
  const nextTurn = last?.isDoubtful ? dueNotBefore(last.finishedAt, 0) : null;
  if (last !== null && nextTurn !== null && nextTurn > run.startedAt) return last.windows;

  const oldest = await findOldestDay(db, client, stream.rescan);
  const lastSliceEnd = findSliceEnd(last?.windows ?? []);
  const today = toUtcDay(serviceNow(context).getTime());
  return planReconcileWindows(stream.rescan, { today, oldest, lastSliceEnd, mirrorDays });
}

/** What a commit adds to the progress of a rescan, with the rows that it marked as unlisted. */
interface WrittenStep extends RescanStep {
  readonly marked?: readonly number[];
}

/**
 * Commits a reading of a rescan together with its progress: counts the rows that were not stored,
 * or differed. A reconciliation records them as findings.
 * @param write writes something else, and returns what it adds to the progress
 * @returns the resources, without those that the database refused
 */
export async function commitProgress(
  context: RescanContext,
  reading: Reading,
  write: (transaction: RunTransaction, page: CommittedPage) => Promise<WrittenStep>,
): Promise<readonly ReadResource[]> {
  const { progress, stream } = context;
  const committed = await commitReading(context, reading, async (transaction, page) => {
    const { marked = [], ...step } = await write(transaction, page);
    const { inserted: missing, changed: stale } = page.written;
    const findings = { missing, stale, extra: marked };
    if (progress.rescan.kind === 'reconcile')
      await recordFindings(transaction, stream.rescan, findings, serviceNow(context));

    const found = { missing: missing.length, stale: stale.length, extra: marked.length };
    const rescan = await saveRescan(transaction.trx, progress.rescan, { ...found, ...step });
    return { resources: page.resources, rescan };
  });
  progress.rescan = committed?.rescan ?? progress.rescan;
  context.onProgress?.(progress.rescan);

  return committed?.resources ?? [];
}

/**
 * Walks the remaining windows of a rescan, and heals what differs from the tables.
 * @param isWanted returns true for resources that should be written
 */
async function walkWindows(
  context: RescanContext,
  isWanted: (resource: ResourceRows) => boolean,
): Promise<RescanContext> {
  const { stream, progress } = context;
  const { filter } = stream.rescan;
  // A reconciliation of a stream without a read by id proves absences by two walks, of which each
  // must be made by one run.
  const mayStop = progress.rescan.kind === 'backfill' || stream.get !== null;

  for (const window of (progress.rescan.windows ?? []).slice(progress.rescan.step)) {
    const parameters = filter === null ? {} : toDateFilter(filter, window);

    await walkList(context, { parameters, start: progress.rescan }, async (walked) => {
      const { query, step } = progress.rescan;
      await healPage(context, walked, isWanted);

      // A walk that continues reads the page of its place again: that is no progress.
      const hasMoved = progress.rescan.query !== query || progress.rescan.step !== step;
      if (hasMoved && mayStop) context.endTurn();
    });
  }
  return context;
}

const isUnlinked = ({ mustReadById }: ReadResource) => mustReadById !== undefined;

/**
 * Commits a page of a window, and checks its resources by id if the list does not suffice. If the
 * last page has resources to read by id, its window ends after those reads: an interruption repeats
 * it.
 */
async function healPage(
  context: RescanContext,
  { page, query, meaning, lastId, atEnd, full }: WalkedPage<StreamPage>,
  isWanted: (resource: ResourceRows) => boolean,
): Promise<void> {
  const { progress, stream, db, run } = context;
  const { kind, step, fullList } = progress.rescan;
  const nextWindow = { query: null, lastId: null, step: step + 1 };
  const wanted = page.decoded.resources.filter(isWanted);
  const isOver = atEnd && !wanted.some(isUnlinked);
  // An empty page does not move the place: it has no row to find the place by.
  const place = lastId === null ? {} : { query, lastId };

  const reading = { ...page, decoded: { ...page.decoded, resources: wanted } };
  const resources = await commitProgress(context, reading, async (transaction) => {
    const ids = kind === 'reconcile' ? readIds(page.data) : [];
    if (stream.get === null && ids.length > 0) await forgetUnlistedReads(transaction, ids);

    return {
      ...{ ...place, meaning, fullList: fullList && !full },
      ...(isOver ? nextWindow : {}),
      ...{ pages: page.pages, fetched: page.data.length, ids },
    };
  });
  // Reads by id must not wait for memory while the page holds some.
  page.release();

  const complete = resources.filter((resource) => !isUnlinked(resource));
  await stream.checkLines?.(context, complete, page.pages);
  const unlinked = resources.filter(isUnlinked);
  if (unlinked.length === 0) return;

  await readRescanByIds(context, await chooseForReadById(context, listIds(unlinked)), false);
  if (atEnd)
    progress.rescan = await underLease(db, run.lease, (trx) =>
      saveRescan(trx, progress.rescan, nextWindow),
    );
}

/** Workers check the lines of these resources in this number of portions, one portion a day. */
const byIdPortions = 30;

/**
 * Chooses the resources to read by id, out of those whose lines came without a link to them. Only
 * such a read proves their lines. A command reads all of them. A worker reads those that wait for a
 * reread, and each day another portion of the others.
 */
async function chooseForReadById(
  context: RescanContext,
  ids: readonly number[],
): Promise<readonly number[]> {
  if (!context.progress.rescan.background) return ids;
  const waiting = new Set(await findWaiting(context.db, context.client, context.stream.name, ids));
  const portion = Math.floor(serviceNow(context).getTime() / dayMs) % byIdPortions;
  return ids.filter((id) => waiting.has(id) || id % byIdPortions === portion);
}

/**
 * Reads resources of a rescan by id.
 * @param marks true to mark those that the service does not know as unlisted
 */
async function readRescanByIds(
  context: RescanContext,
  ids: readonly number[],
  marks: boolean,
): Promise<void> {
  const resources: ReadResource[] = [];
  for await (const { reading, settle } of readByIds(context, ids)) {
    const read = await commitProgress(context, reading, async (transaction, page) => ({
      marked: await settle(transaction, page, { marks }),
    }));
    for (const resource of read) resources.push(resource);
  }

  await context.stream.checkLines?.(context, resources, 1);
}

/**
 * If a list lacks more rows than this, and a larger share than `toleratedShare`, we doubt the list
 * and mark no row.
 */
const toleratedExtras = 20;
const toleratedShare = 0.01;

/** Maximum number of rows without a read by id that are marked in one transaction. */
const markBatchSize = 500;

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
 * @param accept true if an operator confirms that all unlisted rows are gone
 * @returns for each window in which too many rows are unlisted: a description for the error message
 */
async function checkUnlisted(context: RescanContext, accept: boolean): Promise<readonly string[]> {
  const { db, stream, progress } = context;
  const { rescan } = progress;
  if (!rescan.fullList) {
    warn(
      context,
      `${stream.name}: the list could not be read to its end, so no row was marked as unlisted`,
    );
    return [];
  }

  // An empty list proves nothing, even if an operator accepts it.
  const isEmpty = rescan.fetched === 0;
  const isAccepted = accept && !isEmpty;
  const doubts: string[] = [];
  const withoutRead = new Set<number>();
  for (const window of rescan.windows ?? []) {
    const place = { age: stream.rescan, serviceNow: serviceNow(context), window };
    const stored = await countRowsInWindow(db, rescan.client, place);
    const bound = Math.max(toleratedExtras, Math.floor(stored * toleratedShare));
    // No more ids than it takes to doubt the list.
    const unlisted = await findUnlistedRows(db, rescan, place, isAccepted ? null : bound + 1);

    const isBelieved = !isEmpty && (isAccepted || unlisted.length <= bound);
    if (isBelieved && stream.get === null) for (const id of unlisted) withoutRead.add(id);
    else if (isBelieved) await readRescanByIds(context, unlisted, true);
    else if (unlisted.length > 0 && (isEmpty || !(await areAllKnown(context, unlisted))))
      doubts.push(
        describeDoubt(
          window,
          `${unlisted.length}${unlisted.length > bound ? ' or more' : ''}`,
          stored,
        ),
      );
  }

  if (stream.get === null && !isEmpty) await unlistWithoutRead(context, [...withoutRead], accept);
  return doubts;
}

function describeDoubt({ after, before }: DayWindow, count: string, stored: number): string {
  const from = after === null ? '' : ` after ${after}`;
  const to = before === null ? '' : ` before ${before}`;
  return `${count} of the ${stored} rows${from}${to} that are stored here`;
}

/**
 * Returns true if the service knows a sample of the unlisted rows by id: then the list is fine. The
 * service may return some shipments only by id (docs/interface.md, 10.6 Not shown).
 */
async function areAllKnown(context: RescanContext, unlisted: readonly number[]): Promise<boolean> {
  const { stream, warehouse, signal } = context;
  if (stream.get === null) return false;
  for (const id of unlisted.slice(0, toleratedExtras + 1))
    if (!(await warehouse.hasResource(stream.get, id, { signal }))) return false;

  warn(
    context,
    `${stream.name}: ${unlisted.length} or more rows are not listed, ` +
      'but the service returns them by id',
  );
  return true;
}

/**
 * Marks rows of a stream without a read by id: those that an operator accepts as gone, or that two
 * complete walks in a row have lacked. The marks have the number of the walk's first request, so
 * later readings win.
 */
async function unlistWithoutRead(
  context: RescanContext,
  ids: readonly number[],
  accept: boolean,
): Promise<void> {
  const { stream, run } = context;
  const { startedAt, readNo } = context.progress.rescan;
  // After an interruption, rows that polls found unchanged in between are not known, and an absence
  // must not count twice.
  if (!accept && startedAt !== null && startedAt < run.startedAt) {
    if (ids.length > 0)
      warn(
        context,
        `${stream.name}: interrupted, so no row was marked as unlisted; ` +
          'the next reconciliation checks again',
      );
    return;
  }

  const reading = makeEmptyReading(readNo ?? 0);
  for (let start = 0; start < ids.length; start += markBatchSize) {
    const batch = ids.slice(start, start + markBatchSize);
    await commitProgress(context, reading, async (transaction) => {
      const gone = accept ? batch : await recordUnlistedReads(transaction, 'reconcile', batch);
      return { marked: await unlist(transaction, stream, gone, reading.readNo) };
    });
  }
}

/**
 * Reconciles every stream, and reads the return authorizations again, because no list has them. A
 * failing stream does not stop the others. Its error is thrown at the end. If the run is repeated
 * before its next due time, it skips the streams that succeeded.
 */
export async function reconcileAll(context: RunContext, streams: readonly Stream[]): Promise<void> {
  const { db, client, run, dueNotBefore } = context;
  const doneAt =
    run.trigger === 'manual' ? new Map<string, Date>() : await readReconciledTimes(db, client);
  const isDue = ({ name }: Stream) => {
    const done = doneAt.get(name);
    const turn = done === undefined ? null : dueNotBefore(done, 0);
    return turn === null || turn <= run.startedAt;
  };
  await runEach(context, [
    ...streams
      .filter(isDue)
      .map(
        (one) => (within: RunContext) => reconcileStream(toRescanContext(within, one), 'worker'),
      ),
    ({ run }) => underLease(db, run.lease, (trx) => hastenReads(trx, client)),
    rereadAuthorizations,
    requestMissingParcels,
    requestOrdersOfShipments,
  ]);
}

/** Requests look-ups of shipped shipments that have none, for example after a lost row. */
async function requestMissingParcels(context: RunContext): Promise<void> {
  const { db, client, run } = context;
  const count = await underLease(db, run.lease, (trx) =>
    requestMissingParcelReads(trx, client, serviceNow(context)),
  );
  if (count > 0)
    warn(
      context,
      `${count} shipped shipments had no look-up of their packages; pull-parcels makes up for it`,
    );
}

/** Runs the backfills that were requested for the background, oldest first. */
export async function backfillRequested(
  context: RunContext,
  streams: readonly Stream[],
): Promise<void> {
  const rescans = await findBackgroundBackfills(context.db, context.client);
  const backfill = async (within: RunContext, rescan: Rescan) => {
    const stream = streams.find(({ name }) => name === rescan.stream);
    if (stream === undefined)
      throw new Error(`backfill ${rescan.id}: there is no stream ${rescan.stream}`);
    return backfillStream(toRescanContext(within, stream), rescan);
  };

  await runEach(
    context,
    rescans.map((rescan) => (within) => backfill(within, rescan)),
  );
}

/**
 * Does all tasks, also after a failure. Throws the first error at the end; further ones become
 * warnings. After a failure the turn of the run does not end early: a run that continues would not
 * know of it.
 */
async function runEach(
  context: RunContext,
  tasks: readonly ((context: RunContext) => Promise<unknown>)[],
): Promise<void> {
  const failures: unknown[] = [];
  const endTurn = () => {
    if (failures.length === 0) context.endTurn();
  };

  for (const task of tasks) {
    try {
      await task({ ...context, endTurn });
    } catch (error) {
      if (error instanceof StoppedError || error instanceof LeaseLostError) throw error;
      failures.push(error);
    }
  }

  throwFirst(context, failures);
}
