import type { Transaction } from 'kysely';
import type { OperationName } from '../../config/operations.ts';
import type { Database } from '../erp/connect.ts';
import { appendChanges, type Change } from '../erp/feed.ts';
import { quarantine, releaseQuarantined } from '../erp/quarantine.ts';
import { requestRereads, settleRereads } from '../erp/rereads.ts';
import type { DB } from '../erp/rows.ts';
import { type Run, recordProgress, type Totals } from '../erp/runs.ts';
import { underLease } from '../erp/transaction.ts';
import { drawReadNo, type MirrorTables, upsertFamilies } from '../erp/upsert.ts';
import type { ListPage, Warehouse } from '../warehouse/client.ts';
import type { Document } from '../warehouse/jsonapi.ts';
import { checkQuarantineShare, type DecodedPage, type DecodeResource, decodePage } from './decode.ts';

/** One stream: what it is called, where it is read, and how a resource becomes rows. */
export interface Stream {
  readonly name: string;
  readonly list: OperationName;
  /** Null where the service has no read by id. */
  readonly get: OperationName | null;
  readonly tables: MirrorTables;
  /** @param zone IANA zone of the client's zone-less times */
  readonly decoder: (zone: string) => DecodeResource;
  /** Follow-up writes for rows a page changed, in its transaction. */
  readonly afterChanges?: (
    trx: Transaction<DB>,
    client: string,
    changes: readonly Change[],
  ) => Promise<readonly Change[]>;
}

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
}

/** Resources read at one moment. */
export interface Reading extends Pick<Document, 'data' | 'included' | 'escaped'> {
  /** Drawn before the request was sent. */
  readonly readNo: number;
  /** They stood in a list: whatever made them be read one by one is over. */
  readonly listed: boolean;
}

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
    undecodable: 0,
    quarantined: 0,
    warnings: [],
  };
}

/** Notes something a person should know; once a run. */
export function warn(context: PullContext, warning: string): void {
  if (!context.totals.warnings.includes(warning)) context.totals.warnings.push(warning);
}

/** Asks one page of a stream's list. Its number is drawn anew before every send: an answer is as old as its request. */
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
  return { ...page, readNo, listed: true };
}

/**
 * Writes one reading: rows, quarantine, cursor (`alongside`), ledger and feed in one transaction under the lease.
 * Counters move only when it has committed.
 * @throws QuarantineShareError, LeaseLostError
 */
export async function commitReading(
  context: PullContext,
  stream: Stream,
  reading: Reading,
  alongside: (trx: Transaction<DB>, page: DecodedPage) => Promise<readonly Change[] | undefined> = async () =>
    undefined,
): Promise<DecodedPage> {
  const { client, db, run, totals, quarantineMaxShare } = context;
  const page = decodePage(reading, stream.decoder(context.zone));
  const fetched = totals.fetched + reading.data.length;
  const undecodable = totals.undecodable + page.quarantined.length;
  checkQuarantineShare(undecodable, fetched, quarantineMaxShare);
  const ids = page.families.map(({ parent }) => parent.id);
  const committed = await underLease(db, run.lease, async (trx): Promise<Totals> => {
    const { changes, ...written } = await upsertFamilies(trx, client, stream.tables, reading.readNo, page.families);
    const parents = changes.filter(({ entity }) => entity === stream.tables.parent.name);
    const followUps = (await stream.afterChanges?.(trx, client, parents)) ?? [];
    const changed = new Set(parents.map(({ id }) => id));
    // What has to be read alone keeps its turn, its pauses and its quarantine until it was.
    const seen = ids.filter((id) => !page.readById.has(id));
    const wanted = [...page.readById].filter(([id, when]) => when === 'always' || changed.has(id)).map(([id]) => id);
    await settleRereads(trx, client, stream.name, reading.listed ? seen : [...changed]);
    await requestRereads(trx, client, stream.name, wanted, 'its lines came without a link to it');
    await releaseQuarantined(trx, client, stream.name, seen);
    const newlyQuarantined = await quarantine(trx, client, stream.name, run.worker, page.quarantined);
    const others = (await alongside(trx, page)) ?? [];
    const sum: Totals = {
      pages: totals.pages + 1,
      fetched,
      created: totals.created + written.created,
      updated: totals.updated + written.updated + followUps.length + others.length,
      removed: totals.removed + written.removed,
      unchanged: totals.unchanged + written.unchanged,
      stale: totals.stale + written.stale,
      undecodable,
      quarantined: totals.quarantined + newlyQuarantined,
      warnings: [...new Set([...totals.warnings, ...page.warnings])],
    };
    await recordProgress(trx, run, sum);
    await appendChanges(trx, client, [...changes, ...followUps, ...others]);
    return sum;
  });
  Object.assign(totals, committed);
  return page;
}
