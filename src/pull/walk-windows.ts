/**
 * The walk of a rescan: reads its windows, heals what differs, and stores its place with each page.
 */

import { dayMs } from '../core/time.ts';
import { serviceNow } from '../schedule/run.ts';
import { underLease } from '../schedule/sql/leases.ts';
import { type CommittedPage, commitReading, type Reading } from './commit.ts';
import type { DecodedPage, ReadResource } from './decode.ts';
import { type ReadBatch, readByIds } from './read-by-ids.ts';
import type { ResourceRows } from './sql/mirror-tables.ts';
import {
  type Rescan,
  type RescanStep,
  recordFindings,
  saveRescan,
  zeroCounts,
} from './sql/rescans.ts';
import type { RunTransaction } from './sql/stream-transaction.ts';
import { listIds } from './sql/upsert.ts';
import { findWaiting } from './sql/waiting-reads.ts';
import type { RescanContext } from './stream.ts';
import { readIds, type WalkedPage } from './walk.ts';
import { type StreamPage, toDateFilter, walkList } from './walk-list.ts';

/** What one commit adds to the progress of a rescan, and the ids that its page listed. */
interface Progress extends Partial<RescanStep> {
  readonly ids?: readonly number[];
}

/**
 * Commits a reading of a rescan together with its progress.
 * @param write writes something else, and returns what it adds to the progress
 * @returns the page, without the resources that the database refused
 */
export async function commitProgress(
  context: RescanContext,
  reading: Reading,
  write: (transaction: RunTransaction, page: CommittedPage) => Promise<Progress>,
): Promise<DecodedPage> {
  const { progress } = context;
  const committed = await commitReading(context, reading, async (transaction, page) => {
    const more = await write(transaction, page);
    return { page, rescan: await saveProgress(transaction, progress.rescan, more) };
  });
  progress.rescan = committed?.rescan ?? progress.rescan;

  return committed?.page ?? reading.decoded;
}

const saveProgress = (
  { trx }: Pick<RunTransaction, 'trx'>,
  rescan: Rescan,
  { ids = [], ...step }: Progress,
) => saveRescan(trx, rescan, { ...rescan, ...zeroCounts, ...step }, ids);

/**
 * Walks the remaining windows of a rescan, and heals what differs from the tables.
 * @param isWanted returns true for resources that should be written
 */
export async function walkWindows(
  context: RescanContext,
  isWanted: (resource: ResourceRows) => boolean = () => true,
): Promise<void> {
  const { rescan } = context.progress;
  const { filter } = context.stream.rescan;

  for (const window of (rescan.windows ?? []).slice(rescan.step)) {
    const parameters = filter === null ? {} : toDateFilter(filter, window);
    const start = context.progress.rescan;

    await walkList(context, { parameters, start }, async (walked) => {
      const { query, step } = context.progress.rescan;
      const { decoded } = walked.page;
      const resources = decoded.resources.filter(isWanted);
      await healPage(context, walked, { ...decoded, resources });
      context.onProgress?.(context.progress.rescan);

      // A walk that continues reads the page of its place again: that is no progress.
      const { rescan: now } = context.progress;
      const hasMoved = now.query !== query || now.step !== step;
      if (hasMoved && mayStop(context)) context.endTurn();
    });
  }
}

/**
 * Returns true if the walk may stop here, and continue in a later run. A reconciliation of a stream
 * without a read by id proves absences by two walks, of which each must be made by one run.
 */
const mayStop = ({ stream, progress: { rescan } }: RescanContext): boolean =>
  rescan.kind === 'backfill' || stream.get !== null;

/**
 * Commits a page of a window, and checks its resources by id if the list does not suffice. If the
 * last page has resources to read by id, its window ends after those reads: an interruption repeats
 * it.
 */
async function healPage(
  context: RescanContext,
  { page, query, meaning, lastId, atEnd, full }: WalkedPage<StreamPage>,
  decoded: DecodedPage,
): Promise<void> {
  const { kind, step, fullList } = context.progress.rescan;
  const nextWindow = { query: null, lastId: null, step: step + 1 };
  const isUnlinked = ({ mustReadById }: ReadResource) => mustReadById !== undefined;
  const isOver = atEnd && !decoded.resources.some(isUnlinked);

  const { resources } = await commitProgress(
    context,
    { ...page, decoded },
    async (transaction, committed) => ({
      ...{ query, lastId, meaning, fullList: fullList && !full },
      ...(isOver ? nextWindow : {}),
      ...(await countHealed(transaction, context, committed)),
      pages: page.pages,
      fetched: page.data.length,
      ids: kind === 'reconcile' ? readIds(page.data) : [],
    }),
  );
  // Reads by id must not wait for memory while the page holds some.
  page.release();

  const complete = resources.filter((resource) => !isUnlinked(resource));
  await context.stream.checkLines?.(context, complete, page.pages);
  const unlinked = resources.filter(isUnlinked);
  if (unlinked.length === 0) return;

  await readRescanByIds(context, await chooseForReadById(context, listIds(unlinked)));
  const { progress, db, run } = context;
  if (atEnd)
    progress.rescan = await underLease(db, run.lease, (trx) =>
      saveProgress({ trx }, progress.rescan, nextWindow),
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
 * @param onAbsent runs in the transaction of each batch, for ids that the service does not know;
 *   returns what it adds to the progress
 */
export async function readRescanByIds(
  context: RescanContext,
  ids: readonly number[],
  onAbsent?: (transaction: RunTransaction, batch: ReadBatch) => Promise<Progress>,
): Promise<void> {
  const { progress } = context;
  const batches = await readByIds(context, ids, {
    write: async (transaction, batch) => {
      const healed = await countHealed(transaction, context, batch);
      const absent = await onAbsent?.(transaction, batch);
      const rescan = await saveProgress(transaction, progress.rescan, { ...healed, ...absent });
      return { rescan, resources: batch.resources };
    },
  });
  progress.rescan = batches.at(-1)?.rescan ?? progress.rescan;

  const resources = batches.flatMap((batch) => batch.resources);
  await context.stream.checkLines?.(context, resources, 1);
}

/**
 * Counts the rows that were not stored, or differed. For a reconciliation, records them as
 * findings.
 */
async function countHealed(
  transaction: RunTransaction,
  context: RescanContext,
  { written }: CommittedPage,
): Promise<Pick<RescanStep, 'missing' | 'stale'>> {
  await recordRescanFindings(transaction, context, 'missing', written.inserted);
  await recordRescanFindings(transaction, context, 'stale', written.changed);

  return { missing: written.inserted.length, stale: written.changed.length };
}

/** Records rows as findings, if the rescan is a reconciliation. */
export async function recordRescanFindings(
  transaction: RunTransaction,
  context: RescanContext,
  finding: 'missing' | 'stale' | 'extra',
  ids: readonly number[],
): Promise<void> {
  if (context.progress.rescan.kind !== 'reconcile') return;
  const found = { finding, ids, serviceNow: serviceNow(context) };

  await recordFindings(transaction, context.stream.rescan, found);
}
