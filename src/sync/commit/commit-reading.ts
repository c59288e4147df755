/**
 * Writes a reading: rows, quarantine, cursor, ledger and feed. All of them commit in one transaction, which the lease
 * fences.
 */

import type { Transaction } from 'kysely';
import { dayMs } from '../../core/time.ts';
import { isDataRefused } from '../../erp/connection/transaction.ts';
import type { DB } from '../../erp/generated/tables.ts';
import { mayWriteAnything, type ReadingScope } from '../../erp/mirror/differences.ts';
import { appendChanges, type Change } from '../../erp/mirror/feed.ts';
import type { Family } from '../../erp/mirror/mirror-tables.ts';
import { type UpsertResult, upsertFamilies } from '../../erp/mirror/upsert.ts';
import { quarantineResources } from '../../erp/pull/quarantine.ts';
import { enterStream, recordConfirmations } from '../../erp/runs/confirmations.ts';
import { underLease } from '../../erp/runs/leases.ts';
import { recordProgress, type Totals } from '../../erp/runs/ledger.ts';
import { checkQuarantineShare, type DecodedPage, quarantineRefused } from '../reading/decode.ts';
import type { MirroredResource } from '../reading/stream.ts';
import { newShare, type PullContext, type ServiceClock, type Share, warn } from '../run/pull-context.ts';
import { findRefused } from './find-refused.ts';
import { countPages, findReadNos, type Reading } from './reading.ts';
import { applyWaitingPlan, planWaiting } from './waiting-plan.ts';

/** A page that is written in the current transaction, with the result of its upsert. */
export interface CommittedPage extends DecodedPage {
  readonly written: UpsertResult;
}

/** Further writes in the transaction of a reading: their entries for the feed, and a result for the caller. */
export interface ExtraWrites<Result> {
  readonly changes: readonly Change[];
  readonly result: Result;
}

/**
 * A function that writes something in the transaction of a reading. The transaction may run more than once. Null means
 * that there is nothing else to write: then a reading without news writes nothing.
 */
type ExtraWriter<Result> = ((trx: Transaction<DB>, page: CommittedPage) => Promise<ExtraWrites<Result>>) | null;

/** A reading that was committed, without the resources that were quarantined or not kept. */
export interface CommittedReading<Result> {
  readonly page: DecodedPage;
  /** The result of `writeExtra`; null if it was not called. */
  readonly result: Result | null;
}

/**
 * Writes one reading in one transaction under the lease: rows, quarantine, further writes such as the cursor, ledger
 * and feed. The counters of the run change only after the commit. If the database refuses the data, finds the refused
 * resources, quarantines them and writes the others.
 * @param writeExtra writes something else in the same transaction
 * @param keep returns true for families that should be written
 * @throws QuarantineShareError if too many resources cannot be decoded
 * @throws LeaseLostError if the run no longer holds its lease
 */
export async function commitReading<Result = never>(
  context: PullContext,
  stream: MirroredResource,
  reading: Reading,
  writeExtra: ExtraWriter<Result> = null,
  keep: (family: Family) => boolean = () => true,
): Promise<CommittedReading<Result>> {
  const { decoded } = reading;
  const page = { ...decoded, families: decoded.families.filter(keep) };
  noteNewestDate(context.state.service, stream, page);
  try {
    if (writeExtra === null && (await countIfUnchanged(context, stream, reading, page))) return { page, result: null };
    return await commitPage(context, stream, reading, page, writeExtra);
  } catch (error) {
    if (!isDataRefused(error)) throw error;
    const scope = toReadingScope(context, stream, reading);
    const refused = await findRefused(context.db, context.run.lease, scope, stream.tables, page.families);
    if (refused.size === 0) throw error;
    return commitPage(context, stream, reading, quarantineRefused(page, refused), writeExtra);
  }
}

const toReadingScope = (
  { client, compare }: PullContext,
  stream: MirroredResource,
  { readNo }: Reading,
): ReadingScope => ({
  client,
  stream: stream.name,
  readNo,
  compare,
});

/**
 * Returns true if a reading has nothing to write, and counts it in the run's totals. Most readings of a poll are like
 * this. Returns false, and counts nothing, if there is or may be something to write.
 */
async function countIfUnchanged(
  context: PullContext,
  stream: MirroredResource,
  reading: Reading,
  page: DecodedPage,
): Promise<boolean> {
  const { db, run } = context;
  const { totals } = context.state;
  const { families, quarantined, warnings, readById } = page;
  if (quarantined.length > 0 || [...readById.values()].includes('always')) return false;
  const mayBring = () =>
    mayWriteAnything(db, run.lease, toReadingScope(context, stream, reading), stream.tables, families);
  if (families.length > 0 && (await mayBring())) return false;
  totals.pages += countPages(reading);
  totals.fetched += reading.resources;
  totals.unchanged += new Set(families.map(({ parent }) => parent.id)).size;
  for (const warning of warnings) warn(context, warning);
  if (reading.pages > 0) context.state.share.listed += reading.resources;
  return true;
}

async function commitPage<Result>(
  context: PullContext,
  stream: MirroredResource,
  reading: Reading,
  page: DecodedPage,
  writeExtra: ExtraWriter<Result>,
): Promise<CommittedReading<Result>> {
  const { client, db, run } = context;
  const { totals } = context.state;
  const share = checkShare(context, reading, page);
  const committed = await underLease(db, run.lease, async (trx) => {
    const scope = { trx, client, stream: stream.name };
    const { othersAtWork, waits } = await enterStream(scope, run.lease);
    const written = await upsertFamilies(trx, toReadingScope(context, stream, reading), stream.tables, page.families);
    if (othersAtWork) await recordConfirmations(scope, findReadNos(reading, page, written.unchanged));
    const parents = written.changes.filter(({ entity }) => entity === stream.tables.parent.name);
    const followUps = (await stream.afterChanges?.(trx, client, parents)) ?? [];
    await applyWaitingPlan(scope, planWaiting(stream, reading, page, written), waits);
    const quarantined = await quarantineResources(trx, stream.name, run, reading.readNo, page.quarantined);
    const others = (await writeExtra?.(trx, { ...page, written })) ?? null;
    const changes = [...written.changes, ...followUps, ...(others?.changes ?? [])];
    const sum = addCounts(totals, reading, page, written, quarantined, changes.length - written.changes.length);
    await recordProgress(trx, run, sum);
    await appendChanges(trx, client, changes);
    return { sum, result: others?.result ?? null };
  });
  context.state.hasWritten = true;
  Object.assign(totals, committed.sum);
  Object.assign(context.state.share, share);
  return { page, result: committed.result };
}

/**
 * Returns the counts of listed and undecodable resources of the stream, with this reading added.
 * @throws QuarantineShareError if too many of them cannot be decoded
 */
function checkShare({ state: { share } }: PullContext, reading: Reading, page: DecodedPage): Share {
  // Reads by id do not count: a resource in quarantine is read again and again, so it would count each time.
  const met = reading.pages > 0 ? { listed: reading.resources, undecodable: page.quarantined.length } : newShare();
  const sum = { listed: share.listed + met.listed, undecodable: share.undecodable + met.undecodable };
  checkQuarantineShare(sum.undecodable, sum.listed, page.quarantined[0]);
  return sum;
}

/** Returns the totals of the run as they are after this reading has committed. */
const addCounts = (
  totals: Totals,
  reading: Reading,
  page: DecodedPage,
  written: UpsertResult,
  quarantined: number,
  otherUpdates: number,
): Totals => ({
  pages: totals.pages + countPages(reading),
  fetched: totals.fetched + reading.resources,
  created: totals.created + written.created,
  updated: totals.updated + written.updated + otherUpdates,
  removed: totals.removed + written.removed,
  unchanged: totals.unchanged + written.unchanged.length,
  stale: totals.stale + written.stale.length,
  quarantined: totals.quarantined + quarantined,
  warnings: [...new Set([...totals.warnings, ...page.warnings])],
});

/**
 * Keeps the newest date of the resources. Ignores dates more than a day after the service's clock: a mistyped date must
 * not make the stream look fresh.
 */
function noteNewestDate(service: ServiceClock, stream: MirroredResource, { families }: DecodedPage): void {
  const limitMs = (service.lastMs ?? Number.NEGATIVE_INFINITY) + dayMs;
  for (const { parent } of families)
    for (const column of stream.rescan?.moved ?? []) {
      const ms = Date.parse(String(parent[column]));
      if (ms <= limitMs && ms > (service.newestSourceMs ?? Number.NEGATIVE_INFINITY)) service.newestSourceMs = ms;
    }
}
