import { sql, type Transaction } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';
import { anyClient } from '../../db/values.ts';
import type { Change } from './feed.ts';
import { type MirrorTable, rowSet } from './mirror-tables.ts';
import { maskErasedPackages, type PackageRow, packageKey } from './parcel-rows.ts';
import { writeRows } from './upsert.ts';

const trackTraces: MirrorTable = {
  name: 'track_traces',
  key: Object.keys(packageKey),
  columns: {
    ...packageKey,
    external_order_number: 'text',
    shipment_method: 'text',
    current_track_trace_status: 'integer',
    current_track_trace_status_date_time: 'timestamptz',
    current_track_trace_exception_level: 'integer',
    raw: 'jsonb',
  },
  telling: ['raw'],
  since: 'unlisted_since',
};

/** The result of storing a track-trace list. */
export interface TrackTraceResult {
  /** Number of packages that were listed before. */
  readonly listedBefore: number;
  /**
   * Number of packages that the list lacks and that are not marked, because the list is not
   * believed.
   */
  readonly doubted: number;
  /** Ids of shipments with packages that have left the list. */
  readonly leftShipments: readonly number[];
  /** Ids of shipments that the list names and that are not stored here. */
  readonly unknownShipments: readonly number[];
  readonly changes: readonly Change[];
}

/**
 * A list that lacks more packages than this, and more than half of them, may be cut: its packages
 * are marked only if the next list lacks them, too. An empty list always is such a list.
 */
const toleratedMissing = 5;

/**
 * Stores the complete list of packages on their way. Writes the packages that differ, and an event
 * for each one whose state changed. Marks packages that are no longer listed as unlisted; the job
 * pull-parcels reads their last state. If the list may be cut, because it lacks many packages,
 * marks only those that the list before lacked, too.
 * @param present ids of further shipments whose list entries could not be decoded; null if some of
 *   these ids are unknown. Then no package is marked.
 */
export async function storeTrackTraces(
  trx: Transaction<DB>,
  client: string,
  read: readonly PackageRow[],
  present: readonly number[] | null,
): Promise<TrackTraceResult> {
  const rows = await maskErasedPackages(trx, client, read);
  const listedBefore = await countListed(trx, client);

  const written = await writeRows({ trx, client }, trackTraces, rows);

  const left =
    present === null ? [] : await unlistMissing(trx, client, rows, { present, listedBefore });
  const unlisted = left.map(
    ({ key }): Change => ({ entity: 'track_traces', id: null, key, operation: 'unlisted' }),
  );
  return {
    listedBefore,
    doubted: present === null ? 0 : await countListed(trx, client, true),
    leftShipments: [...new Set(left.map(({ shipmentId }) => shipmentId))],
    unknownShipments: await findUnknownShipments(trx, client, rows),
    changes: [...written, ...unlisted],
  };
}

async function findUnknownShipments(
  trx: Transaction<DB>,
  client: string,
  packages: readonly PackageRow[],
): Promise<number[]> {
  const { rows } = await sql<{ id: number }>`
    select distinct i.shipment_id as id
    from ${rowSet(packageKey, packages)}
    where not exists (select from fulfilment.shipments s where s.client = ${anyClient(client)}
      and s.id = i.shipment_id)
    order by id`.execute(trx);
  return rows.map(({ id }) => id);
}

/**
 * Marks packages as unlisted that are neither in the list nor of a shipment in `present`. If the
 * list may be cut, marks those that the list before lacked, too, and notes the others.
 */
async function unlistMissing(
  trx: Transaction<DB>,
  client: string,
  rows: readonly PackageRow[],
  { present, listedBefore }: { present: readonly number[]; listedBefore: number },
): Promise<{ readonly shipmentId: number; readonly key: string }[]> {
  const missing = await noteMissing(trx, client, rows, present);
  const isEmpty = rows.length === 0 && present.length === 0;
  const isDoubted = isEmpty || missing > Math.max(toleratedMissing, listedBefore / 2);

  const { rows: marked } = await sql<{ shipmentId: number; key: string }>`
    update fulfilment.track_traces t
    set unlisted_since = t.missing_since, missing_since = null
    where t.client = ${anyClient(client)} and t.unlisted_since is null
      and t.missing_since is not null
      and (t.missing_since < now() or not ${isDoubted}::boolean)
    returning t.shipment_id as "shipmentId",
      t.shipment_id || ':' || t.package_number as key`.execute(trx);
  return marked;
}

/** Notes since when the list lacks packages. Returns their number. */
async function noteMissing(
  trx: Transaction<DB>,
  client: string,
  rows: readonly PackageRow[],
  present: readonly number[],
): Promise<number> {
  const isMissing = sql<boolean>`(t.shipment_id <> all(${present}::bigint[]) and not exists (
      select from ${rowSet(packageKey, rows)}
      where i.shipment_id = t.shipment_id and i.package_number = t.package_number))`;

  await sql`
    update fulfilment.track_traces t
    set missing_since = case when t.missing_since is null then now() end
    where t.client = ${anyClient(client)} and t.unlisted_since is null
      and ${isMissing} <> (t.missing_since is not null)`.execute(trx);
  return countListed(trx, client, true);
}

/** Counts the packages that are listed, or those of them that the last list lacked. */
async function countListed(trx: Transaction<DB>, client: string, missing = false): Promise<number> {
  const { count } = await trx
    .selectFrom('fulfilment.track_traces')
    .select(sql<number>`count(*)::int`.as('count'))
    .where('client', '=', anyClient(client))
    .where('unlisted_since', 'is', null)
    .$if(missing, (query) => query.where('missing_since', 'is not', null))
    .executeTakeFirstOrThrow();
  return count;
}
