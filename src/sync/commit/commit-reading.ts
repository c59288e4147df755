import type { Transaction } from 'kysely';
import { refusesData } from '../../erp/connection/transaction.ts';
import type { DB } from '../../erp/generated/tables.ts';
import { appendChanges, type Change } from '../../erp/mirror/feed.ts';
import type { Family } from '../../erp/mirror/tables.ts';
import { mayBringNews, type ReadingScope, type UpsertResult, upsertFamilies } from '../../erp/mirror/upsert.ts';
import { quarantine, releaseQuarantined } from '../../erp/pull/quarantine.ts';
import { requestRereads, settleRereads } from '../../erp/pull/rereads.ts';
import { confirm, enterStream, type ReadAs } from '../../erp/runs/confirmations.ts';
import { underLease } from '../../erp/runs/leases.ts';
import { recordProgress, type Totals } from '../../erp/runs/ledger.ts';
import type { Document } from '../../warehouse/decoding/jsonapi.ts';
import { checkQuarantineShare, type DecodedPage, decodePage, setAside } from '../reading/decode.ts';
import type { Mirrored } from '../reading/stream.ts';
import { newShare, type PullContext, type ServiceClock, warn } from '../run/pull-context.ts';
import { findRefused } from './refused.ts';

/** Resources read at one moment. */
export interface Reading extends Pick<Document, 'data' | 'included' | 'escaped'> {
  /** Drawn before the request was sent. Of several requests the oldest; what was decoded brings its own. */
  readonly readNo: number;
  /** Pages of a list that they stood on: whatever made them be read one by one is over. None where they were read so. */
  readonly pages: number;
  /** What they are as rows, where that is known already. */
  readonly decoded?: DecodedPage;
}

/** A reading of nothing, for what is concluded from an absence: as old as `readNo`. */
export const nothingRead = (readNo: number): Reading => ({
  data: [],
  included: [],
  escaped: false,
  readNo,
  pages: 0,
});

/** What a reading did, for what is written alongside. */
export interface Committed extends DecodedPage {
  readonly written: UpsertResult;
}

/** What is written with a reading; null: nothing, so that a reading without news writes nothing at all. */
type Alongside = ((trx: Transaction<DB>, page: Committed) => Promise<readonly Change[]>) | null;

/**
 * Writes one reading: rows, quarantine, cursor (`alongside`), ledger and feed in one transaction under the lease.
 * Counters move only when it has committed.
 * @param keep which of the resources are to be written
 * @throws QuarantineShareError, LeaseLostError
 */
export async function commitReading(
  context: PullContext,
  stream: Mirrored,
  reading: Reading,
  alongside: Alongside = null,
  keep: (family: Family) => boolean = () => true,
): Promise<DecodedPage> {
  const decoded = reading.decoded ?? (await decodePage(reading, stream.decoder(context.zone)));
  const page = { ...decoded, families: decoded.families.filter(keep) };
  noteNewest(context.service, stream, page);
  try {
    if (alongside === null && (await bringsNothing(context, stream, reading, page))) return page;
    return await commitPage(context, stream, reading, page, alongside);
  } catch (error) {
    if (!refusesData(error)) throw error;
    const refused = await findRefused(
      context.db,
      context.run.lease,
      scopeOf(context, stream, reading),
      stream.tables,
      page.families,
    );
    if (refused.size === 0) throw error;
    return commitPage(context, stream, reading, setAside(page, refused), alongside);
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
  const { db, run, totals } = context;
  const { families, quarantined, warnings, readById } = page;
  if (quarantined.length > 0 || [...readById.values()].includes('always')) return false;
  const mayBring = () => mayBringNews(db, run.lease, scopeOf(context, stream, reading), stream.tables, families);
  if (families.length > 0 && (await mayBring())) return false;
  totals.pages += pagesOf(reading);
  totals.fetched += reading.data.length;
  totals.unchanged += new Set(families.map(({ parent }) => parent.id)).size;
  for (const warning of warnings) warn(context, warning);
  if (reading.pages > 0) context.share.listed += reading.data.length;
  return true;
}

const pagesOf = ({ pages, data }: Reading) => Math.max(pages, data.length > 0 ? 1 : 0);

async function commitPage(
  context: PullContext,
  stream: Mirrored,
  reading: Reading,
  page: DecodedPage,
  alongside: Alongside,
): Promise<DecodedPage> {
  const { client, db, run, totals, quarantineMaxShare } = context;
  const fetched = totals.fetched + reading.data.length;
  // What is read by id again and again, because it cannot be decoded, says nothing of the interface.
  const met = reading.pages > 0 ? { listed: reading.data.length, undecodable: page.quarantined.length } : newShare();
  const share = { listed: context.share.listed + met.listed, undecodable: context.share.undecodable + met.undecodable };
  checkQuarantineShare(share.undecodable, share.listed, quarantineMaxShare, page.quarantined[0]);
  const committed = await underLease(db, run.lease, async (trx): Promise<Totals> => {
    const { othersAtWork, waits } = await enterStream(trx, run.lease, stream.name);
    const written = await upsertFamilies(trx, scopeOf(context, stream, reading), stream.tables, page.families);
    if (othersAtWork) await confirm(trx, client, stream.name, readAs(reading, page, written.unchanged));
    const parents = written.changes.filter(({ entity }) => entity === stream.tables.parent.name);
    const followUps = (await stream.afterChanges?.(trx, client, parents)) ?? [];
    await settleRead(trx, context, stream, reading, page, written, waits);
    const newlyQuarantined = await quarantine(trx, stream.name, run, reading.readNo, page.quarantined);
    const others = (await alongside?.(trx, { ...page, written })) ?? [];
    const sum: Totals = {
      pages: totals.pages + pagesOf(reading),
      fetched,
      created: totals.created + written.created,
      updated: totals.updated + written.updated + followUps.length + others.length,
      removed: totals.removed + written.removed,
      unchanged: totals.unchanged + written.unchanged.length,
      stale: totals.stale + written.stale.length,
      quarantined: totals.quarantined + newlyQuarantined,
      warnings: [...new Set([...totals.warnings, ...page.warnings])],
    };
    await recordProgress(trx, run, sum);
    await appendChanges(trx, client, [...written.changes, ...followUps, ...others]);
    return sum;
  });
  Object.assign(totals, committed);
  Object.assign(context.share, share);
  return page;
}

/** These resources of a page, each with the number of its own reading. */
function readAs({ readNo }: Reading, { families }: DecodedPage, ids: readonly number[]): ReadAs[] {
  const own = new Map(families.map(({ parent }) => [parent.id, parent.read_no]));
  return ids.map((id) => ({ id, readNo: own.get(id) ?? readNo }));
}

const noLink = 'its lines came without a link to it';

/** Takes from the waiting lists what this reading settles, and puts on them what has to be read alone. */
async function settleRead(
  trx: Transaction<DB>,
  { client }: PullContext,
  stream: Mirrored,
  reading: Reading,
  page: DecodedPage,
  written: UpsertResult,
  somethingWaits: boolean,
): Promise<void> {
  const { families, readById } = page;
  const parents = written.changes.filter(({ entity }) => entity === stream.tables.parent.name);
  const changed = new Set(parents.map(({ id }) => id));
  const older = new Set(written.stale);
  // A push and a poll that were under way at once: which of both answers is the newer cannot be known, so it is asked again.
  if (stream.get !== null) await requestRereads(trx, client, stream.name, written.stale, 'two readings at once differ');
  // What has to be read alone keeps its turn, its pauses and its quarantine until it was.
  const seen = families.map(({ parent }) => parent.id).filter((id) => !readById.has(id) && !older.has(id));
  const wanted = [...readById].filter(([id, when]) => when === 'always' || changed.has(id)).map(([id]) => id);
  if (!somethingWaits) return requestRereads(trx, client, stream.name, wanted, noLink);
  const settled = reading.pages > 0 ? seen : families.map(({ parent }) => parent.id).filter((id) => changed.has(id));
  await settleRereads(
    trx,
    client,
    stream.name,
    settled,
    settled.filter((id) => changed.has(id)),
  );
  await requestRereads(trx, client, stream.name, wanted, noLink);
  await releaseQuarantined(trx, client, stream.name, readAs(reading, page, seen));
}

/** Keeps the newest date met, as long as it is not beyond the service's own clock: freshness must not be a typing error. */
function noteNewest(service: ServiceClock, stream: Mirrored, { families }: DecodedPage): void {
  const limitMs = (service.lastMs ?? Number.NEGATIVE_INFINITY) + 86_400_000;
  for (const { parent } of families)
    for (const column of stream.rescan?.moved ?? []) {
      const ms = Date.parse(String(parent[column]));
      if (ms <= limitMs && ms > (service.newestSourceMs ?? Number.NEGATIVE_INFINITY)) service.newestSourceMs = ms;
    }
}
