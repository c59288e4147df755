/**
 * Writes a reading: rows, quarantine, cursor, ledger and feed. All of them commit in one
 * transaction, which the lease fences.
 */

import { dayMs, isRealDay } from '../core/time.ts';
import { isDataRefused } from '../db/transaction.ts';
import type { Totals } from '../schedule/decide-end.ts';
import { addCounts, newShare, type Share } from '../schedule/run.ts';
import { recordProgress, rescanJobs } from '../schedule/sql/ledger.ts';
import { checkQuarantineShare, type DecodedPage, emptyPage, quarantineRefused } from './decode.ts';
import { findRefused } from './find-refused.ts';
import { appendChanges, type Change } from './sql/feed.ts';
import type { Family } from './sql/mirror-tables.ts';
import { type QuarantineEntry, quarantineResources, releaseQuarantined } from './sql/quarantine.ts';
import {
  enterStream,
  type NumberedReading,
  type RunTransaction,
  recordConfirmations,
  writeStream,
} from './sql/stream-transaction.ts';
import { markUnlisted } from './sql/unlisted.ts';
import { mayWriteAnything, type UpsertResult, upsertFamilies } from './sql/upsert.ts';
import { addQuarantinedReads, removeReads, requestReads } from './sql/waiting-reads.ts';
import { findChangedIds, type PullContext } from './stream.ts';

/** Resources read at one moment, as rows. */
export interface Reading {
  /**
   * Number of the reading, drawn before its request. If there were several requests: the oldest
   * number. A parent row with a `read_no` overrides it for its family.
   */
  readonly readNo: number;
  /** Number of list pages that this reading covers; 0 if the resources were fetched by id. */
  readonly pages: number;
  /** Number of resources that were received. */
  readonly resources: number;
  /** The resources as rows, and those that could not be decoded. */
  readonly decoded: DecodedPage;
}

/**
 * Returns a reading without resources. It dates changes that follow from an absence to the reading
 * `readNo`.
 */
export const makeEmptyReading = (readNo: number): Reading => ({
  readNo,
  pages: 0,
  resources: 0,
  decoded: emptyPage,
});

/** A page that is written in the current transaction, with the result of its upsert. */
export interface CommittedPage extends DecodedPage {
  readonly written: UpsertResult;
}

/**
 * The transaction of a reading. What is written besides its rows adds to `changes`, for the feed.
 */
export interface ReadingTransaction extends RunTransaction {
  readonly changes: Change[];
}

/** How a reading is committed. */
interface CommitOptions<Result> {
  /**
   * Writes something else in the same transaction, such as the cursor. The transaction may run more
   * than once. Without it, a reading without news writes nothing.
   */
  readonly write?: (transaction: ReadingTransaction, page: CommittedPage) => Promise<Result>;
  /** Returns true for families that should be written; default: all. */
  readonly isWanted?: (family: Family) => boolean;
}

/** A reading that was committed, without the resources that were quarantined or not kept. */
export interface CommittedReading<Result> {
  readonly page: DecodedPage;
  /** The result of `write`; null if there is none. */
  readonly result: Result | null;
}

/**
 * Writes one reading in one transaction under the lease. The counters of the run change only after
 * the commit. If the database refuses the data, finds the refused resources, quarantines them and
 * writes the others.
 * @throws QuarantineShareError if too many resources cannot be decoded
 * @throws LeaseLostError if the run no longer holds its lease
 */
export async function commitReading<Result = never>(
  context: PullContext,
  reading: Reading,
  options: CommitOptions<Result> = {},
): Promise<CommittedReading<Result>> {
  const { client, db, run, compare, stream } = context;
  const { isWanted = () => true } = options;
  const page = { ...reading.decoded, families: reading.decoded.families.filter(isWanted) };
  noteNewestDate(context, page);

  try {
    if (options.write === undefined && (await countIfUnchanged(context, reading, page)))
      return { page, result: null };
    return await commitPage(context, reading, page, options);
  } catch (error) {
    if (!isDataRefused(error)) throw error;

    const age = { readNo: reading.readNo, compare };
    const refused = await findRefused(db, run.lease, page.families, (trx, families) =>
      upsertFamilies({ trx, client, stream: stream.name }, age, stream.tables, families),
    );
    if (refused.size === 0) throw error;
    const reasons = new Map([...refused].map(([{ parent }, reason]) => [parent.id, reason]));
    return commitPage(context, reading, quarantineRefused(page, reasons), options);
  }
}

/** The transaction of a page, from the fence to the feed. */
async function commitPage<Result>(
  context: PullContext,
  reading: Reading,
  page: DecodedPage,
  { write }: CommitOptions<Result>,
): Promise<CommittedReading<Result>> {
  const { db, run, compare, state, stream } = context;
  const { readNo } = reading;
  const share = addToShare(state.share, reading, page);

  const committed = await writeStream(db, run, stream.name, async (underFence) => {
    const transaction = { ...underFence, changes: [] };
    const { hasOtherReaders, mayWait } = await enterStream(transaction);

    const age = { readNo, compare };
    const written = await upsertFamilies(transaction, age, stream.tables, page.families);

    // A row that was found unchanged is not written, so it does not show when it was last seen. If
    // a rescan asked before, it may still commit an older state of the row, or its absence.
    if (hasOtherReaders)
      await recordConfirmations(transaction, findReadNos(reading, page, written.unchanged));

    await stream.afterChanges?.(transaction, findChangedIds(stream, written.changes));
    await updateWaitingReads(transaction, context, reading, { ...page, written, mayWait });

    const quarantined = await quarantineResources(transaction, readNo, page.quarantined);
    if (stream.get !== null)
      await addQuarantinedReads(transaction, findReadableIds(page.quarantined));

    const result = (await write?.(transaction, { ...page, written })) ?? null;

    const others = transaction.changes;
    const totals = sumTotals(context, reading, written, { quarantined, others: others.length });
    totals.warnings = [...new Set([...totals.warnings, ...page.warnings])];
    await recordProgress(transaction, totals);

    const changes = [...written.changes, ...others];
    const isRescan = rescanJobs.includes(run.lease.name);
    await appendChanges(transaction.trx, transaction.client, changes, isRescan);

    return { totals, result };
  });

  state.hasWritten = true;
  Object.assign(state.totals, committed.totals);
  Object.assign(state.share, share);
  return { page, result: committed.result };
}

/** Returns the totals of the run with this reading added. */
function sumTotals(
  context: PullContext,
  reading: Reading,
  { created, updated, removed, unchanged, stale }: UpsertResult,
  { quarantined, others }: { readonly quarantined: number; readonly others: number },
): Totals {
  return addCounts(context, {
    ...{ pages: countPages(reading), fetched: reading.resources, created, removed, quarantined },
    updated: updated + others,
    unchanged: unchanged.length,
    stale: stale.length,
  });
}

/**
 * If a reading has nothing to write, as most have, counts it in the run's totals. Returns false if
 * it may have.
 */
async function countIfUnchanged(
  { db, run, compare, state, stream }: PullContext,
  reading: Reading,
  { families, quarantined, warnings, mustReadById }: DecodedPage,
): Promise<boolean> {
  if (quarantined.length > 0 || [...mustReadById.values()].includes('always')) return false;
  const asked = { lease: run.lease, stream: stream.name, compare };
  if (families.length > 0 && (await mayWriteAnything(db, asked, stream.tables, families)))
    return false;

  const { totals } = state;
  totals.pages += countPages(reading);
  totals.fetched += reading.resources;
  totals.unchanged += new Set(families.map(({ parent }) => parent.id)).size;
  totals.warnings = [...new Set([...totals.warnings, ...warnings])];
  if (reading.pages > 0) state.share.listed += reading.resources;
  return true;
}

/**
 * Updates what a reading means for resources that wait to be read by id, and for quarantined ones.
 * @param page `mayWait` is false if nothing of the stream waits and nothing is in quarantine; then
 *   there is nothing to remove
 */
async function updateWaitingReads(
  transaction: RunTransaction,
  { stream }: PullContext,
  reading: Reading,
  page: CommittedPage & { readonly mayWait: boolean },
): Promise<void> {
  const { families, mustReadById, written, mayWait } = page;
  const changed = new Set(findChangedIds(stream, written.changes));
  const older = new Set(written.stale);
  const ids = families.map(({ parent }) => parent.id);

  // A resource that must be read by id keeps its place in the list, its waiting time and its
  // quarantine entry until that read.
  const seen = ids.filter((id) => !mustReadById.has(id) && !older.has(id));
  const settled = reading.pages > 0 ? seen : ids.filter((id) => changed.has(id));
  const unlinked = [...mustReadById]
    .filter(([id, when]) => when === 'always' || changed.has(id))
    .map(([id]) => id);

  if (stream.get !== null) await requestReads(transaction, written.stale, 'older_reading');
  if (mayWait) {
    await releaseQuarantined(transaction, findReadNos(reading, page, seen));
    const changedIds = settled.filter((id) => changed.has(id));
    await removeReads(transaction, findReadNos(reading, page, settled), changedIds);
  }
  await requestReads(transaction, unlinked, 'unlinked_lines');
}

/**
 * Marks rows as unlisted because the service does not have them.
 * @param readNo number of the reading that lacked them; a row that a later reading found is not
 *   marked
 * @returns the ids of the rows that were marked
 */
export async function unlist(
  transaction: ReadingTransaction,
  { mayBeGone, tables }: PullContext['stream'],
  ids: readonly number[],
  readNo: number,
): Promise<readonly number[]> {
  const gone = (await mayBeGone?.(transaction, ids)) ?? ids;
  const marked = await markUnlisted(transaction, tables.parent.name, gone, readNo);
  for (const change of marked) transaction.changes.push(change);

  return marked.map(({ id }) => id as number);
}

/** Returns the ids that can be read by id. */
const findReadableIds = (entries: readonly QuarantineEntry[]): number[] =>
  entries.map(({ resourceId }) => resourceId).filter((id) => id !== null);

/** Returns the given ids, each with the number of its reading. */
function findReadNos(
  { readNo }: Reading,
  { families }: DecodedPage,
  ids: readonly number[],
): NumberedReading[] {
  const readNoById = new Map(families.map(({ parent }) => [parent.id, parent.read_no]));
  return ids.map((id) => ({ id, readNo: readNoById.get(id) ?? readNo }));
}

/**
 * Returns the share with this reading added.
 * @throws QuarantineShareError if too much cannot be decoded
 */
function addToShare(share: Share, reading: Reading, page: DecodedPage): Share {
  // Reads by id do not count: a resource in quarantine is read again and again, so it would count
  // each time.
  const met =
    reading.pages > 0
      ? { listed: reading.resources, undecodable: page.quarantined.length }
      : newShare();
  const listed = share.listed + met.listed;
  const undecodable = share.undecodable + met.undecodable;
  checkQuarantineShare(undecodable, listed, page.quarantined[0]);

  return { listed, undecodable };
}

/**
 * Returns the number of pages that a reading counts for in the ledger: at least one, if it has
 * resources.
 */
const countPages = ({ pages, resources }: Reading) => Math.max(pages, resources > 0 ? 1 : 0);

/**
 * Keeps the newest date of the resources. Ignores dates more than a day after the service's clock:
 * a mistyped date must not make the stream look fresh.
 */
function noteNewestDate(
  { stream, state: { service } }: PullContext,
  { families }: DecodedPage,
): void {
  const limitMs = (service.lastMs ?? Number.NEGATIVE_INFINITY) + dayMs;
  for (const { parent } of families)
    for (const column of stream.rescan?.moved ?? []) {
      const text = String(parent[column]);
      const ms = isRealDay(text) ? Date.parse(text) : Number.NaN;
      if (ms <= limitMs && ms > (service.newestSourceMs ?? Number.NEGATIVE_INFINITY))
        service.newestSourceMs = ms;
    }
}
