import type { Transaction } from 'kysely';
import { confirm, enterStream } from '../erp/confirmations.ts';
import type { Database } from '../erp/connect.ts';
import { appendChanges, type Change } from '../erp/feed.ts';
import type { Comparison, Family } from '../erp/mirror.ts';
import { quarantine, releaseQuarantined } from '../erp/quarantine.ts';
import { requestRereads, settleRereads } from '../erp/rereads.ts';
import type { Rescan } from '../erp/rescans.ts';
import type { DB } from '../erp/rows.ts';
import { type Run, recordProgress, type Totals } from '../erp/runs.ts';
import { refusesData, underLease } from '../erp/transaction.ts';
import { drawReadNo, type UpsertResult, upsertFamilies } from '../erp/upsert.ts';
import type { ListPage, Warehouse } from '../warehouse/client.ts';
import type { Document } from '../warehouse/jsonapi.ts';
import { checkQuarantineShare, type DecodedPage, decodePage, setAside } from './decode.ts';
import { findRefused, scopeOf } from './refused.ts';
import type { Mirrored, Stream } from './stream.ts';

/** What a run learns of the service's time on its way. */
export interface ServiceClock {
  /** `Date` of the first answer; null before, or where the service sends none. */
  firstMs: number | null;
  /** `Date` of the last answer. */
  lastMs: number | null;
  /** Newest date on any resource received. */
  newestSourceMs: number | null;
}

export const newServiceClock = (): ServiceClock => ({ firstMs: null, lastMs: null, newestSourceMs: null });

/** Counts of one stream, for QUARANTINE_MAX_SHARE. */
export interface Share {
  listed: number;
  undecodable: number;
}

export const newShare = (): Share => ({ listed: 0, undecodable: 0 });

/** What every pass of a run works with. */
export interface PullContext {
  readonly client: string;
  readonly zone: string;
  readonly db: Database;
  readonly warehouse: Warehouse;
  readonly run: Run;
  readonly totals: Totals;
  readonly signal: AbortSignal;
  readonly lookbackDays: number;
  readonly quarantineMaxShare: number;
  readonly retentionDays: number;
  /** Fingerprint of the account. */
  readonly identity: string;
  /** HTTP_TIMEOUT_MS. */
  readonly timeoutMs: number;
  /** When the next run is due, where the run itself knows better than the schedule; null: as that says. */
  readonly plan: { dueAt: Date | null };
  /** When the schedule has a run after `earliest`; just then where its turns come more often than every `gapMs`. */
  readonly dueNotBefore: (earliest: Date, gapMs: number) => Date | null;
  readonly service: ServiceClock;
  /** Polls hold `raw` against the tables, rescans every column. */
  readonly compare: Comparison;
  /** What was listed of one stream, and how much of it could not be decoded. */
  readonly share: Share;
  /** How far a rescan has come; not called by polls. */
  readonly onProgress?: (rescan: Rescan) => void;
}

/** Resources read at one moment. */
export interface Reading extends Pick<Document, 'data' | 'included' | 'escaped'> {
  /** Drawn before the request was sent. */
  readonly readNo: number;
  /** They stood in a list: whatever made them be read one by one is over. */
  readonly listed: boolean;
  /** What they are as rows, where that is known already. */
  readonly decoded?: DecodedPage;
}

/** A reading of nothing, for what is concluded from an absence: as old as `readNo`. */
export const nothingRead = (readNo: number): Reading => ({
  data: [],
  included: [],
  escaped: false,
  readNo,
  listed: false,
});

/** The service's clock where it sends one: its dates are held against it. */
export const serviceNow = ({ service, run }: PullContext) => new Date(service.lastMs ?? run.startedAt.getTime());

export const pageSize = 100;

export function newTotals(): Totals {
  return {
    pages: 0,
    fetched: 0,
    created: 0,
    updated: 0,
    removed: 0,
    unchanged: 0,
    stale: 0,
    quarantined: 0,
    warnings: [],
  };
}

/** Notes something a person should know; once a run. */
export function warn(context: PullContext, warning: string): void {
  if (!context.totals.warnings.includes(warning)) context.totals.warnings.push(warning);
}

/**
 * Asks one page of a stream's list, and decodes it: a page that is fetched ahead is decoded while Postgres writes the one
 * before. Its number is drawn anew before every send: an answer is as old as its request.
 */
export async function fetchPage(
  context: PullContext,
  stream: Stream,
  query: string,
  signal: AbortSignal,
): Promise<ListPage & Reading> {
  let readNo = 0;
  const beforeSend = async () => {
    readNo = await drawReadNo(context.db);
  };
  const page = await context.warehouse.list(stream.list, query, { signal, beforeSend });
  context.service.firstMs ??= page.dateMs;
  context.service.lastMs = page.dateMs ?? context.service.lastMs;
  return { ...page, readNo, listed: true, decoded: await decodePage(page, stream.decoder(context.zone)) };
}

/** What a reading did, for what is written alongside. */
export interface Committed extends DecodedPage {
  readonly written: UpsertResult;
}

type Alongside = (trx: Transaction<DB>, page: Committed) => Promise<readonly Change[]>;

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
  alongside: Alongside = async () => [],
  keep: (family: Family) => boolean = () => true,
): Promise<DecodedPage> {
  const decoded = reading.decoded ?? (await decodePage(reading, stream.decoder(context.zone)));
  const page = { ...decoded, families: decoded.families.filter(keep) };
  noteNewest(context.service, stream, page);
  try {
    return await commitPage(context, stream, reading, page, alongside);
  } catch (error) {
    if (!refusesData(error)) throw error;
    const refused = await findRefused(context, stream, reading, page.families);
    if (refused.size === 0) throw error;
    return commitPage(context, stream, reading, setAside(page, refused), alongside);
  }
}

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
  const met = reading.listed ? { listed: reading.data.length, undecodable: page.quarantined.length } : newShare();
  const share = { listed: context.share.listed + met.listed, undecodable: context.share.undecodable + met.undecodable };
  checkQuarantineShare(share.undecodable, share.listed, quarantineMaxShare, page.quarantined[0]);
  const committed = await underLease(db, run.lease, async (trx): Promise<Totals> => {
    const othersAtWork = await enterStream(trx, run.lease, stream.name);
    const written = await upsertFamilies(trx, scopeOf(context, stream, reading), stream.tables, page.families);
    if (othersAtWork) await confirm(trx, client, stream.name, reading.readNo, written.unchanged);
    const parents = written.changes.filter(({ entity }) => entity === stream.tables.parent.name);
    const followUps = (await stream.afterChanges?.(trx, client, parents)) ?? [];
    await settleRead(trx, context, stream, reading, page, new Set(parents.map(({ id }) => id)));
    const newlyQuarantined = await quarantine(trx, stream.name, run, reading.readNo, page.quarantined);
    const others = await alongside(trx, { ...page, written });
    const sum: Totals = {
      pages: totals.pages + (reading.listed || reading.data.length > 0 ? 1 : 0),
      fetched,
      created: totals.created + written.created,
      updated: totals.updated + written.updated + followUps.length + others.length,
      removed: totals.removed + written.removed,
      unchanged: totals.unchanged + written.unchanged.length,
      stale: totals.stale + written.stale,
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

/** Takes from the waiting lists what this reading settles, and puts on them what has to be read alone. */
async function settleRead(
  trx: Transaction<DB>,
  { client }: PullContext,
  stream: Mirrored,
  reading: Reading,
  { families, readById }: DecodedPage,
  changed: ReadonlySet<number | null>,
): Promise<void> {
  // What has to be read alone keeps its turn, its pauses and its quarantine until it was.
  const seen = families.map(({ parent }) => parent.id).filter((id) => !readById.has(id));
  const wanted = [...readById].filter(([id, when]) => when === 'always' || changed.has(id)).map(([id]) => id);
  const settled = reading.listed ? seen : families.map(({ parent }) => parent.id).filter((id) => changed.has(id));
  await settleRereads(trx, client, stream.name, settled);
  await requestRereads(trx, client, stream.name, wanted, 'its lines came without a link to it');
  await releaseQuarantined(trx, client, stream.name, seen, reading.readNo);
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
