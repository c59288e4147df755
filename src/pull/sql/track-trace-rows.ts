import { type RawBuilder, sql, type Transaction } from 'kysely';
import type { Json } from '../../core/json.ts';
import { maskJson } from '../../core/personal-data.ts';
import type { DB } from '../../db/generated/tables.ts';
import { anyClient } from '../../db/values.ts';
import { findErasedShipments } from './erasures.ts';
import { type Change, type ChangedRow, changedColumnsOrNew, toChange } from './feed.ts';
import { columnRefs } from './mirror-tables.ts';

/**
 * A package of a shipment, with the members that the service gives it. A shipment has each number
 * at most once.
 */
export interface ReadPackage {
  readonly packageNumber: string;
  readonly raw: Json;
  readonly [member: string]: unknown;
}

/** A package with its shipment. */
export interface PackageRow extends ReadPackage {
  readonly shipmentId: number;
}

/**
 * Columns of a table of packages beside the key, each with the member that fills it and its type.
 */
export type PackageColumns = Readonly<Record<string, readonly [member: string, type: string]>>;

/** Returns SQL: packages as a set named i, with a typed column for each member. */
export function packageSet(columns: PackageColumns, rows: readonly unknown[]): RawBuilder<unknown> {
  const members = [
    ['shipmentId', 'bigint'],
    ['packageNumber', 'text'],
    ...Object.values(columns),
  ] as const;
  const typed = members.map(([member, type]) => sql`${sql.ref(member)} ${sql.raw(type)}`);
  return sql`json_to_recordset(${JSON.stringify(rows)}::json) as i (${sql.join(typed)})`;
}

/** Returns SQL: the members of a package i, in the order of the columns. */
export const takeMembers = (columns: PackageColumns) =>
  sql.join(Object.values(columns).map(([member]) => sql.ref(`i.${member}`)));

/** Returns SQL for an upsert: sets these columns to what was read. */
export const overwrite = (columns: readonly string[]) =>
  sql.join(columns.map((column) => sql`${sql.ref(column)} = ${sql.ref(`excluded.${column}`)}`));

const trackTraceColumns: PackageColumns = {
  external_order_number: ['externalOrderNumber', 'text'],
  shipment_method: ['shipmentMethod', 'text'],
  current_track_trace_status: ['currentTrackTraceStatus', 'integer'],
  current_track_trace_status_date_time: ['currentTrackTraceStatusDateTime', 'timestamptz'],
  current_track_trace_exception_level: ['currentTrackTraceExceptionLevel', 'integer'],
  raw: ['raw', 'jsonb'],
};

/** The result of storing a track-trace list. */
export interface TrackTraceResult {
  readonly created: number;
  readonly updated: number;
  readonly unlisted: number;
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

/** Masks the packages of erased orders, and returns the others unchanged. */
export async function maskErasedPackages(
  trx: Transaction<DB>,
  client: string,
  rows: readonly PackageRow[],
): Promise<readonly PackageRow[]> {
  const ids = rows.map(({ shipmentId }) => shipmentId);
  const erased = await findErasedShipments(trx, client, ids);
  return rows.map((row) => (erased.has(row.shipmentId) ? { ...row, raw: maskJson(row.raw) } : row));
}

/**
 * A list that lacks more packages than this, and more than half of them, may be cut: its packages
 * are marked only if the next list lacks them, too. An empty list always is such a list.
 */
const toleratedMissing = 5;

/** The key of a package, without the client. */
export const packageKey = ['shipment_id', 'package_number'] as const;

/**
 * Stores the complete list of packages on their way. Writes the packages that differ, and an event
 * for each one whose state changed. Marks packages that are no longer listed as unlisted; the job
 * pull-parcels reads their last state. If the list may be cut, because it lacks many packages, marks
 * only those that the list before lacked, too.
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
  const listed = packageSet(trackTraceColumns, rows);
  const listedBefore = await countListed(trx, client);
  const written = await writeCurrent(trx, client, listed);
  const unlisted =
    present === null ? [] : await unlistMissing(trx, client, rows, { present, listedBefore });
  const { rows: unknown } = await sql<{ id: number }>`
    select distinct i.id
    from unnest(${rows.map(({ shipmentId }) => shipmentId)}::bigint[]) as i (id)
    where not exists (select from fulfilment.shipments s where s.client = ${anyClient(client)}
      and s.id = i.id)
    order by i.id`.execute(trx);
  const changes = [...written, ...unlisted.map(({ change }) => change)];
  const countChanges = (operation: Change['operation']) =>
    changes.filter((change) => change.operation === operation).length;
  return {
    created: countChanges('created'),
    updated: countChanges('updated'),
    unlisted: countChanges('unlisted'),
    listedBefore,
    doubted: present === null ? 0 : await countListed(trx, client, true),
    leftShipments: [...new Set(unlisted.map(({ shipmentId }) => shipmentId))],
    unknownShipments: unknown.map(({ id }) => id),
    changes,
  };
}

async function writeCurrent(
  trx: Transaction<DB>,
  client: string,
  listed: RawBuilder<unknown>,
): Promise<Change[]> {
  const columns = Object.keys(trackTraceColumns);
  const table = sql.table('fulfilment.track_traces');
  const { rows } = await sql<ChangedRow>`
    insert into fulfilment.track_traces
      as t (client, shipment_id, package_number, ${columnRefs(columns)})
    select ${client}, i."shipmentId", i."packageNumber", ${takeMembers(trackTraceColumns)}
    from ${listed}
    order by i."shipmentId", i."packageNumber"
    on conflict (client, shipment_id, package_number) do update set
      ${overwrite(columns)}, changed_at = now(), unlisted_since = null
      where t.raw is distinct from excluded.raw or t.unlisted_since is not null
        or t.current_track_trace_status_date_time is distinct
          from excluded.current_track_trace_status_date_time
    returning t.shipment_id || ':' || t.package_number as key,
      ${changedColumnsOrNew(table, packageKey, [...columns, 'unlisted_since'])}`.execute(trx);
  return rows.map((row) => toChange('track_traces', row));
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
): Promise<{ readonly shipmentId: number; readonly change: Change }[]> {
  const missing = await noteMissing(trx, client, rows, present);
  const isEmpty = rows.length === 0 && present.length === 0;
  const isDoubted = isEmpty || missing > Math.max(toleratedMissing, listedBefore / 2);
  const { rows: gone } = await sql<{ shipmentId: number; key: string }>`
    update fulfilment.track_traces t
    set unlisted_since = t.missing_since, missing_since = null
    where t.client = ${anyClient(client)} and t.unlisted_since is null
      and t.missing_since is not null
      and (t.missing_since < now() or not ${isDoubted}::boolean)
    returning t.shipment_id as "shipmentId",
      t.shipment_id || ':' || t.package_number as key`.execute(trx);
  return gone.map(({ shipmentId, key }) => ({
    shipmentId,
    change: { entity: 'track_traces', id: null, key, operation: 'unlisted' },
  }));
}

/** Notes since when the list lacks packages. Returns their number. */
async function noteMissing(
  trx: Transaction<DB>,
  client: string,
  rows: readonly PackageRow[],
  present: readonly number[],
): Promise<number> {
  const isMissing = sql<boolean>`(t.shipment_id <> all(${present}::bigint[]) and not exists (
      select from unnest(${rows.map(({ shipmentId }) => shipmentId)}::bigint[],
        ${rows.map(({ packageNumber }) => packageNumber)}::text[])
          as i (shipment_id, package_number)
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
