/**
 * Commits what a run has read. A reading of a stream writes rows, waiting reads, quarantine,
 * cursor, ledger and feed in one transaction, which the lease fences.
 */

import { CodedError } from '../core/errors.ts';
import { dayMs, isRealDay } from '../core/time.ts';
import { workOnHalves } from '../core/work-on-halves.ts';
import type { DatabaseTransaction } from '../db/pool.ts';
import { isDataRefused, readSqlState } from '../db/transaction.ts';
import {
  addCounts,
  type Counts,
  newShare,
  type RunContext,
  type Share,
  warn,
} from '../schedule/run.ts';
import { underLease } from '../schedule/sql/leases.ts';
import { recordProgress, rescanJobs } from '../schedule/sql/ledger.ts';
import { checkQuarantineShare, type DecodedPage, quarantineRefused } from './decode.ts';
import { appendChanges, type Change } from './sql/feed.ts';
import { quarantineResources, releaseQuarantined } from './sql/quarantine.ts';
import {
  enterStream,
  type NumberedReading,
  type RunTransaction,
  recordConfirmations,
} from './sql/stream-transaction.ts';
import { markUnlisted } from './sql/unlisted.ts';
import {
  findChangedIds,
  listIds,
  mayWriteAnything,
  type UpsertResult,
  upsertResources,
} from './sql/upsert.ts';
import { addQuarantinedReads, removeReads, requestReads } from './sql/waiting-reads.ts';
import type { PullContext } from './stream.ts';

/**
 * Runs `work` in one transaction under the lease of the run. Then writes the ledger and the feed.
 * The counters of the run change only after the commit. `work` may be run again, so it must take
 * all that it writes from memory.
 * @throws LeaseLostError if the run no longer holds its lease, or the error of `work`
 */
export async function commitRun<Result>(
  context: RunContext,
  stream: string,
  work: (transaction: RunTransaction) => Promise<Result>,
): Promise<Result> {
  const { db, client, run, state } = context;

  const committed = await underLease(db, run.lease, async (trx) => {
    const changes: Change[] = [];
    const addChanges = (more: readonly Change[]) => {
      for (const change of more) changes.push(change);
    };
    const counts: Counts = {};
    const count = (more: Counts) => void Object.assign(counts, more);
    const transaction = { trx, client, stream, run, addChanges, count };
    const result = await work(transaction);

    const totals = addCounts(context, { ...countChanges(changes), ...counts });
    await recordProgress(transaction, totals);
    await appendChanges(trx, client, changes, rescanJobs.includes(run.lease.name));
    return { totals, result, hasChanges: changes.length > 0 };
  });

  if (committed.hasChanges) void context.numberFeed();
  state.mayHaveDueReads = true;
  Object.assign(state.totals, committed.totals);
  return committed.result;
}

/** Counts changes as the ledger does: a row that becomes unlisted is updated. */
export function countChanges(changes: readonly Change[]) {
  const counts = { created: 0, updated: 0, removed: 0 };
  for (const { operation } of changes) counts[operation === 'unlisted' ? 'updated' : operation]++;
  return counts;
}

/** Resources read at one moment, as rows. */
export interface Reading {
  /**
   * Number of the reading, drawn before its request. If there were several requests: the oldest
   * number. A parent row with a `read_no` overrides it for its resource.
   */
  readonly readNo: number;
  /** Number of list pages that this reading covers; 0 if the resources were fetched by id. */
  readonly pages: number;
  /** Number of resources that were received. */
  readonly received: number;
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
  received: 0,
  decoded: { resources: [], quarantined: [] },
});

/** A page that is written in the current transaction, with the result of its upsert. */
export interface CommittedPage extends DecodedPage {
  readonly written: UpsertResult;
}

/**
 * Writes something else in the transaction of a reading, such as the cursor. Its page lacks the
 * resources that the database refused.
 */
type WriteMore<Result> = (transaction: RunTransaction, page: CommittedPage) => Promise<Result>;

/**
 * Commits one reading. If the database refuses the data, finds the refused resources, quarantines
 * them and writes the others. A reading without news, and without `write`, is only counted.
 * @returns the result of `write`; null without it
 * @throws QuarantineShareError if too many resources cannot be decoded
 * @throws LeaseLostError if the run no longer holds its lease
 */
export async function commitReading<Result = never>(
  context: PullContext,
  reading: Reading,
  write?: WriteMore<Result>,
): Promise<Result | null> {
  const { decoded: page, readNo } = reading;
  noteNewestDate(context, page);
  for (const { warning } of page.resources) if (warning !== undefined) warn(context, warning);

  const { client, compare, stream } = context;
  return commitStorable(context, {
    items: page.resources,
    tryOut: (trx, resources) =>
      upsertResources(
        { trx, client, stream: stream.name },
        { readNo, compare },
        stream.tables,
        resources,
      ),
    commit: async (refused) => {
      if (refused.size > 0)
        return commitPage(context, reading, quarantineRefused(page, refused), write);
      if (write !== undefined || (await hasNews(context, page)))
        return commitPage(context, reading, page, write);

      countUnchanged(context, reading);
      return null;
    },
  });
}

/** The transaction of a page, from the fence to the cursor; ledger and feed follow. */
async function commitPage<Result>(
  context: PullContext,
  reading: Reading,
  page: DecodedPage,
  write?: WriteMore<Result>,
): Promise<Result | null> {
  const { compare, state, stream } = context;
  const { readNo } = reading;
  const share = addToShare(state.share, reading, page);

  const result = await commitRun(context, stream.name, async (transaction) => {
    const { hasOtherReaders, hasWaitingReads } = await enterStream(transaction);

    const age = { readNo, compare };
    const written = await upsertResources(transaction, age, stream.tables, page.resources);
    transaction.addChanges(written.changes);

    // A row that was found unchanged is not written, so it does not show when it was last seen. If
    // a rescan asked before, it may still commit an older state of the row, or its absence.
    if (hasOtherReaders)
      await recordConfirmations(transaction, findReadNos(reading, page, written.unchanged));

    await stream.afterChanges?.(transaction, findChangedIds(stream.tables, written.changes));
    await updateWaitingReads(transaction, stream, reading, { ...page, written, hasWaitingReads });

    const quarantined = await quarantine(transaction, stream, readNo, page);

    const more = (await write?.(transaction, { ...page, written })) ?? null;
    const { unchanged, stale } = written;
    const found = { unchanged: unchanged.length, stale: stale.length, quarantined };
    transaction.count({ ...countReading(reading), ...found });
    return more;
  });

  Object.assign(state.share, share);
  return result;
}

/** Returns false if a reading has nothing to write, as most have. */
async function hasNews(
  context: PullContext,
  { resources, quarantined }: DecodedPage,
): Promise<boolean> {
  const isAnyUnlinked = resources.some(({ mustReadById }) => mustReadById === 'always');
  if (quarantined.length > 0 || isAnyUnlinked) return true;

  return resources.length > 0 && mayWriteAnything(context, resources);
}

function countUnchanged(context: PullContext, reading: Reading): void {
  const { state } = context;
  const unchanged = new Set(listIds(reading.decoded.resources)).size;

  Object.assign(state.totals, addCounts(context, { ...countReading(reading), unchanged }));
  if (reading.pages > 0) state.share.listed += reading.received;
}

/** A reading counts as at least one page in the ledger, if it has resources. */
const countReading = ({ pages, received }: Reading) => ({
  pages: Math.max(pages, received > 0 ? 1 : 0),
  fetched: received,
});

/**
 * Updates what a reading means for resources that wait to be read by id, and for quarantined ones.
 * @param page `hasWaitingReads` is false if nothing of the stream waits and nothing is in
 *   quarantine; then there is nothing to remove
 */
async function updateWaitingReads(
  transaction: RunTransaction,
  stream: PullContext['stream'],
  reading: Reading,
  page: CommittedPage & { readonly hasWaitingReads: boolean },
): Promise<void> {
  const { resources, written, hasWaitingReads } = page;
  const changed = new Set(findChangedIds(stream.tables, written.changes));
  const stale = new Set(written.stale);

  // A resource that must be read by id keeps its place in the list, its waiting time and its
  // quarantine entry until that read.
  const linked = resources.filter(({ mustReadById }) => mustReadById === undefined);
  const seen = listIds(linked).filter((id) => !stale.has(id));
  const settled = reading.pages > 0 ? seen : listIds(resources).filter((id) => changed.has(id));
  const unlinked = resources.filter(
    ({ parent, mustReadById: when }) =>
      when === 'always' || (when === 'changed' && changed.has(parent.id)),
  );

  if (stream.get !== null) await requestReads(transaction, written.stale, 'older_reading');
  if (hasWaitingReads) {
    await releaseQuarantined(transaction, findReadNos(reading, page, seen));
    const changedIds = settled.filter((id) => changed.has(id));
    await removeReads(transaction, findReadNos(reading, page, settled), changedIds);
  }
  await requestReads(transaction, listIds(unlinked), 'unlinked_lines');
}

/**
 * Marks rows as unlisted because the service does not have them.
 * @param readNo number of the reading that lacked them; a row that a later reading found is not
 *   marked
 * @returns the ids of the rows that were marked
 */
export async function unlist(
  transaction: RunTransaction,
  stream: PullContext['stream'],
  ids: readonly number[],
  readNo: number,
): Promise<readonly number[]> {
  const marked = await markUnlisted(transaction, stream, ids, readNo);
  transaction.addChanges(marked);

  return marked.map(({ id }) => id as number);
}

/**
 * Quarantines what could not be decoded. It is read again by id, if that is possible.
 * @returns the number of resources that were not in quarantine before
 */
async function quarantine(
  transaction: RunTransaction,
  { get }: PullContext['stream'],
  readNo: number,
  { quarantined }: DecodedPage,
): Promise<number> {
  if (quarantined.length === 0) return 0;
  const ids = quarantined.map(({ resourceId }) => resourceId).filter((id) => id !== null);
  if (get !== null) await addQuarantinedReads(transaction, ids);

  return quarantineResources(transaction, readNo, quarantined);
}

/** Returns the given ids, each with the number of its reading. */
function findReadNos(
  { readNo }: Reading,
  { resources }: DecodedPage,
  ids: readonly number[],
): NumberedReading[] {
  const readNoById = new Map(resources.map(({ parent }) => [parent.id, parent.read_no]));
  return ids.map((id) => ({ id, readNo: readNoById.get(id) ?? readNo }));
}

/**
 * Returns the share with this reading added. Reads by id do not count: a resource in quarantine is
 * read again and again, so it would count each time.
 * @throws QuarantineShareError if too much cannot be decoded
 */
function addToShare(
  share: Share,
  { pages, received }: Reading,
  { quarantined }: DecodedPage,
): Share {
  const met = pages > 0 ? { listed: received, undecodable: quarantined.length } : newShare();
  const listed = share.listed + met.listed;
  const undecodable = share.undecodable + met.undecodable;
  checkQuarantineShare(undecodable, listed, quarantined[0]);

  return { listed, undecodable };
}

/**
 * Keeps the newest date of the resources. Ignores dates more than a day after the service's clock:
 * a mistyped date must not make the stream look fresh.
 */
function noteNewestDate(
  { stream, state: { service } }: PullContext,
  { resources }: DecodedPage,
): void {
  const limitMs = (service.lastMs ?? Number.NEGATIVE_INFINITY) + dayMs;

  for (const { parent } of resources)
    for (const column of stream.rescan?.moved ?? []) {
      const text = String(parent[column]);
      const ms = isRealDay(text) ? Date.parse(text) : Number.NaN;
      if (ms <= limitMs && ms > (service.newestSourceMs ?? Number.NEGATIVE_INFINITY))
        service.newestSourceMs = ms;
    }
}

/** A commit of items of which the database may refuse some. */
interface StorableCommit<Item, Result> {
  readonly items: readonly Item[];
  /** Writes items in a transaction that is rolled back. */
  readonly tryOut: (trx: DatabaseTransaction, items: readonly Item[]) => Promise<unknown>;
  /** Commits all items but the refused ones, each of which has its reason. */
  readonly commit: (refused: ReadonlyMap<Item, string>) => Promise<Result>;
}

/**
 * Commits items. If the database refuses the data, finds the refused items and commits without
 * them.
 */
export async function commitStorable<Item, Result>(
  context: RunContext,
  { items, tryOut, commit }: StorableCommit<Item, Result>,
): Promise<Result> {
  try {
    return await commit(new Map());
  } catch (error) {
    if (!isDataRefused(error)) throw error;

    const refused = await findRefused(context, items, tryOut);
    if (refused.size === 0) throw error;
    return commit(refused);
  }
}

/** Rolls back a trial transaction that the database has accepted. */
class TrialRollback extends CodedError {
  constructor() {
    super('undone', 'The trial transaction is rolled back');
  }
}

/**
 * Finds the items that the database refuses to store. Tries all of them, then halves, until each
 * refused item is alone. Every trial is rolled back.
 * @returns the reason for each refused item
 */
async function findRefused<T>(
  context: RunContext,
  items: readonly T[],
  write: (trx: DatabaseTransaction, items: readonly T[]) => Promise<unknown>,
): Promise<ReadonlyMap<T, string>> {
  const refusal: unknown = await underLease(context.db, context.run.lease, async (trx) => {
    await write(trx, items);
    throw new TrialRollback();
  }).catch((error: unknown) => error);
  const [only, ...others] = items;
  if (refusal instanceof TrialRollback || only === undefined) return new Map();
  if (!isDataRefused(refusal)) throw refusal;

  // The database's own message may quote the value, so only its code is kept.
  if (others.length === 0)
    return new Map([[only, `cannot be stored in Postgres (SQLSTATE ${readSqlState(refusal)})`]]);

  const halves = await workOnHalves(items, (half) => findRefused(context, half, write));
  return new Map(halves.flatMap((half) => [...half]));
}
