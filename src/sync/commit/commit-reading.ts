/**
 * Writes a reading: rows, quarantine, cursor, ledger and feed. They commit together in one transaction that the lease
 * fences.
 */

import type { Transaction } from 'kysely';
import { dayMs } from '../../core/time.ts';
import type { StreamScope } from '../../erp/connection/stream-scope.ts';
import { refusesData } from '../../erp/connection/transaction.ts';
import type { DB } from '../../erp/generated/tables.ts';
import { mayBringNews, type ReadingScope } from '../../erp/mirror/differences.ts';
import { appendChanges, type Change } from '../../erp/mirror/feed.ts';
import type { Family } from '../../erp/mirror/tables.ts';
import { type UpsertResult, upsertFamilies } from '../../erp/mirror/upsert.ts';
import { quarantine, releaseQuarantined } from '../../erp/pull/quarantine.ts';
import { requestRereads, settleRereads } from '../../erp/pull/rereads.ts';
import { confirm, enterStream, type ReadAs } from '../../erp/runs/confirmations.ts';
import { underLease } from '../../erp/runs/leases.ts';
import { recordProgress, type Totals } from '../../erp/runs/ledger.ts';
import { checkQuarantineShare, type DecodedPage, emptyPage, setAside } from '../reading/decode.ts';
import type { Mirrored } from '../reading/stream.ts';
import { newShare, type PullContext, type ServiceClock, type Share, warn } from '../run/pull-context.ts';
import { findRefused } from './refused.ts';

/** Resources read at one moment, as rows. */
export interface Reading {
  /** Number of the reading, drawn before its request. Of several requests the oldest; a family may bring its own. */
  readonly readNo: number;
  /** Number of list pages that this reading covers; 0 if the resources were fetched by id. */
  readonly pages: number;
  /** Number of resources that were received. */
  readonly resources: number;
  readonly decoded: DecodedPage;
}

/** A reading of nothing, for what is concluded from an absence: as old as `readNo`. */
export const nothingRead = (readNo: number): Reading => ({ readNo, pages: 0, resources: 0, decoded: emptyPage });

/** What a reading did, for what is written beside it. */
export interface Committed extends DecodedPage {
  readonly written: UpsertResult;
}

/** What was written beside a reading: entries of the feed, and whatever the caller wants to know. */
export interface Beside<Result> {
  readonly changes: readonly Change[];
  readonly result: Result;
}

/**
 * Writes something in the transaction of a reading, which may run more than once. Null: nothing, so that a reading without
 * news writes nothing at all.
 */
type WriteBeside<Result> = ((trx: Transaction<DB>, page: Committed) => Promise<Beside<Result>>) | null;

/** A reading that was committed, without the resources that were quarantined or not kept. */
export interface CommittedReading<Result> {
  readonly page: DecodedPage;
  /** What `beside` returned; null if it was not called. */
  readonly result: Result | null;
}

/**
 * Writes one reading: rows, quarantine, cursor (`beside`), ledger and feed in one transaction under the lease. Counters
 * move only when it has committed.
 * @param keep which of the resources are to be written
 * @throws QuarantineShareError, LeaseLostError
 */
export async function commitReading<Result = never>(
  context: PullContext,
  stream: Mirrored,
  reading: Reading,
  beside: WriteBeside<Result> = null,
  keep: (family: Family) => boolean = () => true,
): Promise<CommittedReading<Result>> {
  const { decoded } = reading;
  const page = { ...decoded, families: decoded.families.filter(keep) };
  noteNewest(context.state.service, stream, page);
  try {
    if (beside === null && (await bringsNothing(context, stream, reading, page))) return { page, result: null };
    return await commitPage(context, stream, reading, page, beside);
  } catch (error) {
    if (!refusesData(error)) throw error;
    const scope = scopeOf(context, stream, reading);
    const refused = await findRefused(context.db, context.run.lease, scope, stream.tables, page.families);
    if (refused.size === 0) throw error;
    return commitPage(context, stream, reading, setAside(page, refused), beside);
  }
}

const scopeOf = ({ client, compare }: PullContext, stream: Mirrored, { readNo }: Reading): ReadingScope => ({
  client,
  stream: stream.name,
  readNo,
  compare,
});

/** Counts a reading that has nothing to be written, as most of a poll has; whether it is one. */
async function bringsNothing(
  context: PullContext,
  stream: Mirrored,
  reading: Reading,
  page: DecodedPage,
): Promise<boolean> {
  const { db, run } = context;
  const { totals } = context.state;
  const { families, quarantined, warnings, readById } = page;
  if (quarantined.length > 0 || [...readById.values()].includes('always')) return false;
  const mayBring = () => mayBringNews(db, run.lease, scopeOf(context, stream, reading), stream.tables, families);
  if (families.length > 0 && (await mayBring())) return false;
  totals.pages += pagesOf(reading);
  totals.fetched += reading.resources;
  totals.unchanged += new Set(families.map(({ parent }) => parent.id)).size;
  for (const warning of warnings) warn(context, warning);
  if (reading.pages > 0) context.state.share.listed += reading.resources;
  return true;
}

const pagesOf = ({ pages, resources }: Reading) => Math.max(pages, resources > 0 ? 1 : 0);

async function commitPage<Result>(
  context: PullContext,
  stream: Mirrored,
  reading: Reading,
  page: DecodedPage,
  beside: WriteBeside<Result>,
): Promise<CommittedReading<Result>> {
  const { client, db, run } = context;
  const { totals } = context.state;
  const share = checkShare(context, reading, page);
  const committed = await underLease(db, run.lease, async (trx) => {
    const scope = { trx, client, stream: stream.name };
    const { othersAtWork, waits } = await enterStream(scope, run.lease);
    const written = await upsertFamilies(trx, scopeOf(context, stream, reading), stream.tables, page.families);
    if (othersAtWork) await confirm(scope, readAs(reading, page, written.unchanged));
    const parents = written.changes.filter(({ entity }) => entity === stream.tables.parent.name);
    const followUps = (await stream.afterChanges?.(trx, client, parents)) ?? [];
    await settleWaiting(scope, planWaiting(stream, reading, page, written), waits);
    const quarantined = await quarantine(trx, stream.name, run, reading.readNo, page.quarantined);
    const others = (await beside?.(trx, { ...page, written })) ?? null;
    const changes = [...written.changes, ...followUps, ...(others?.changes ?? [])];
    const sum = addCounts(totals, reading, page, written, quarantined, changes.length - written.changes.length);
    await recordProgress(trx, run, sum);
    await appendChanges(trx, client, changes);
    return { sum, result: others?.result ?? null };
  });
  Object.assign(totals, committed.sum);
  Object.assign(context.state.share, share);
  return { page, result: committed.result };
}

/** Adds a reading to what was listed of its stream. @throws QuarantineShareError if too much of that cannot be decoded */
function checkShare({ state: { share }, quarantineMaxShare }: PullContext, reading: Reading, page: DecodedPage): Share {
  // What is read by id again and again, because it cannot be decoded, says nothing of the interface.
  const met = reading.pages > 0 ? { listed: reading.resources, undecodable: page.quarantined.length } : newShare();
  const sum = { listed: share.listed + met.listed, undecodable: share.undecodable + met.undecodable };
  checkQuarantineShare(sum.undecodable, sum.listed, quarantineMaxShare, page.quarantined[0]);
  return sum;
}

/** Returns what a run has done once this reading is committed. */
const addCounts = (
  totals: Totals,
  reading: Reading,
  page: DecodedPage,
  written: UpsertResult,
  quarantined: number,
  otherUpdates: number,
): Totals => ({
  pages: totals.pages + pagesOf(reading),
  fetched: totals.fetched + reading.resources,
  created: totals.created + written.created,
  updated: totals.updated + written.updated + otherUpdates,
  removed: totals.removed + written.removed,
  unchanged: totals.unchanged + written.unchanged.length,
  stale: totals.stale + written.stale.length,
  quarantined: totals.quarantined + quarantined,
  warnings: [...new Set([...totals.warnings, ...page.warnings])],
});

/** These resources of a page, each with the number of its own reading. */
function readAs({ readNo }: Reading, { families }: DecodedPage, ids: readonly number[]): ReadAs[] {
  const own = new Map(families.map(({ parent }) => [parent.id, parent.read_no]));
  return ids.map((id) => ({ id, readNo: own.get(id) ?? readNo }));
}

/** What a reading means for resources that wait to be read by id, or are in quarantine. */
interface Waiting {
  /** Ids that have to be read again: this reading and a push were under way at once, and which is newer is not known. */
  readonly doubtful: readonly number[];
  /** Ids whose lines came without a link to them. */
  readonly unlinked: readonly number[];
  /** Ids that need not be read any more, and those of them that have changed. */
  readonly settled: readonly number[];
  readonly changed: readonly number[];
  /** Resources whose good version is in the tables now. */
  readonly released: readonly ReadAs[];
}

function planWaiting(stream: Mirrored, reading: Reading, page: DecodedPage, written: UpsertResult): Waiting {
  const { families, readById } = page;
  const parents = written.changes.filter(({ entity }) => entity === stream.tables.parent.name);
  const changed = new Set(parents.map(({ id }) => id));
  const older = new Set(written.stale);
  const ids = families.map(({ parent }) => parent.id);
  // What has to be read alone keeps its turn, its pauses and its quarantine until it was.
  const seen = ids.filter((id) => !readById.has(id) && !older.has(id));
  const settled = reading.pages > 0 ? seen : ids.filter((id) => changed.has(id));
  return {
    doubtful: stream.get === null ? [] : written.stale,
    unlinked: [...readById].filter(([id, when]) => when === 'always' || changed.has(id)).map(([id]) => id),
    settled,
    changed: settled.filter((id) => changed.has(id)),
    released: readAs(reading, page, seen),
  };
}

/** @param somethingWaits false if nothing of the stream waits: then nothing can be settled or released */
async function settleWaiting(scope: StreamScope, waiting: Waiting, somethingWaits: boolean): Promise<void> {
  await requestRereads(scope, waiting.doubtful, 'two readings at once differ');
  if (somethingWaits) await settleRereads(scope, waiting.settled, waiting.changed);
  await requestRereads(scope, waiting.unlinked, 'its lines came without a link to it');
  if (somethingWaits) await releaseQuarantined(scope, waiting.released);
}

/** Keeps the newest date met, as long as it is not beyond the service's own clock: freshness must not be a typing error. */
function noteNewest(service: ServiceClock, stream: Mirrored, { families }: DecodedPage): void {
  const limitMs = (service.lastMs ?? Number.NEGATIVE_INFINITY) + dayMs;
  for (const { parent } of families)
    for (const column of stream.rescan?.moved ?? []) {
      const ms = Date.parse(String(parent[column]));
      if (ms <= limitMs && ms > (service.newestSourceMs ?? Number.NEGATIVE_INFINITY)) service.newestSourceMs = ms;
    }
}
