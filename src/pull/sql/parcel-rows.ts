/** Writes the packages of shipments, as the look-up and track-trace show them. */

import { sql, type Transaction } from 'kysely';
import { maskJson } from '../../core/personal-data.ts';
import type { DB } from '../../db/generated/tables.ts';
import { anyClient } from '../../db/values.ts';
import { findErasedShipments } from './erasures.ts';
import { type Change, type ChangedRow, changedColumnsOrNew, toChange } from './feed.ts';
import { columnRefs } from './mirror-tables.ts';
import { type ParcelReadPlan, planParcelReads } from './parcel-reads.ts';
import {
  maskErasedPackages,
  overwrite,
  type PackageColumns,
  type PackageRow,
  packageKey,
  packageSet,
  type ReadPackage,
  takeMembers,
} from './track-trace-rows.ts';

/** The answer to one look-up. */
export interface ParcelAnswer extends ParcelReadPlan {
  /** Packages of the shipment, each number once. */
  readonly parcels: readonly ReadPackage[];
}

/** The result of storing packages. */
export interface ParcelResult {
  readonly created: number;
  readonly updated: number;
  readonly changes: readonly Change[];
}

/**
 * Stores the answers of look-ups, and plans the next ones. Packages that an earlier look-up
 * returned, and this one does not, become unlisted. The status of a newer track-trace list is not
 * overwritten.
 */
export async function storeParcels(
  trx: Transaction<DB>,
  client: string,
  answers: readonly ParcelAnswer[],
): Promise<ParcelResult> {
  const erased = await findErasedShipments(
    trx,
    client,
    answers.map(({ shipmentId }) => shipmentId),
  );
  const rows = answers.flatMap(({ shipmentId, readNo, parcels }) =>
    parcels.map((parcel) => ({
      shipmentId,
      readNo,
      ...(erased.has(shipmentId) ? maskParcel(parcel) : parcel),
    })),
  );
  const written = await writeParcels(trx, client, rows);
  const unlisted = await unlistAbsent(trx, client, answers);
  await planParcelReads(trx, client, answers);
  return toResult([...written, ...unlisted]);
}

/**
 * Returns a package of an erased order. Its codes may hold an address: a link, or a postcode as a
 * bar code.
 */
const maskParcel = (parcel: ReadPackage) => ({
  ...parcel,
  trackAndTraceCode: null,
  trackAndTraceBarCode: null,
  trackingNumber: null,
  raw: maskJson(parcel.raw),
});

/** What the track-trace list tells of a package, too. */
const stateColumns: PackageColumns = {
  current_track_trace_status: ['currentTrackTraceStatus', 'text'],
  current_track_trace_exception_level: ['currentTrackTraceExceptionLevel', 'text'],
};
/** What a look-up fills besides. */
const ownColumns: PackageColumns = {
  collo_number: ['colloNr', 'text'],
  track_and_trace_code: ['trackAndTraceCode', 'text'],
  track_and_trace_bar_code: ['trackAndTraceBarCode', 'text'],
  return_package_number: ['returnPackageNumber', 'text'],
  shipping_date: ['shippingDate', 'timestamptz'],
  number_of_colli: ['numberOfColli', 'integer'],
  tracking_number: ['trackingNumber', 'text'],
  shipment_items: ['shipmentItems', 'jsonb'],
  raw: ['raw', 'jsonb'],
};
const parcelColumns = { ...ownColumns, ...stateColumns };

/** SQL: the names of a written package t and its changed columns, for the feed. */
const returnedNames = sql`
  t.shipment_id || ':' || t.package_number as key,
  ${changedColumnsOrNew(sql.table('fulfilment.parcels'), packageKey, [
    ...Object.keys(parcelColumns),
    'unlisted_since',
  ])}`;

const toResult = (changes: readonly Change[]): ParcelResult => {
  const created = changes.filter(({ operation }) => operation === 'created').length;
  return { created, updated: changes.length - created, changes };
};

async function writeParcels(
  trx: Transaction<DB>,
  client: string,
  rows: readonly unknown[],
): Promise<Change[]> {
  const columns = Object.keys(parcelColumns);
  const { rows: written } = await sql<ChangedRow & { readonly changed: boolean }>`
    insert into fulfilment.parcels as t (client, shipment_id, package_number, read_at, read_no,
      ${columnRefs(columns)})
    select ${client}, i."shipmentId", i."packageNumber", now(), i."readNo",
      ${takeMembers(parcelColumns)}
    from ${packageSet({ ...parcelColumns, read_no: ['readNo', 'bigint'] }, rows)}
    order by i."shipmentId", i."packageNumber"
    on conflict (client, shipment_id,
      package_number) do update set ${overwrite(Object.keys(ownColumns))},
      -- If a later reading of the track-trace list is stored, its status stays.
      current_track_trace_status = case when t.read_no > excluded.read_no
        then t.current_track_trace_status
        else excluded.current_track_trace_status end,
      current_track_trace_exception_level = case when t.read_no > excluded.read_no
        then t.current_track_trace_exception_level
          else excluded.current_track_trace_exception_level end,
      changed_at = case when t.raw is distinct from excluded.raw or t.unlisted_since is not null
        or t.read_no <= excluded.read_no
          and (t.current_track_trace_status, t.current_track_trace_exception_level)
          is distinct from (excluded.current_track_trace_status,
            excluded.current_track_trace_exception_level)
        then excluded.changed_at else t.changed_at end,
      read_at = excluded.read_at, read_no = greatest(t.read_no, excluded.read_no),
        unlisted_since = null
    returning ${returnedNames}, changed_at = now() as changed`.execute(trx);
  return written.filter(({ changed }) => changed).map((row) => toChange('parcels', row));
}

/**
 * Marks packages as unlisted that a look-up no longer returns. A package without a number is the
 * whole shipment, so it ends when the look-up returns numbers. Other packages that only track-trace
 * has named stay.
 */
async function unlistAbsent(
  trx: Transaction<DB>,
  client: string,
  answers: readonly ParcelAnswer[],
): Promise<Change[]> {
  const complete = answers
    .filter(({ parcels, problem }) => problem === null && parcels.length > 0)
    .map(({ shipmentId, readNo, parcels }) => ({
      shipmentId,
      readNo,
      numbers: parcels.map(({ packageNumber }) => packageNumber),
    }));
  if (complete.length === 0) return [];
  const { rows } = await sql<{ key: string }>`
    update fulfilment.parcels t
    set unlisted_since = now(), read_no = a."readNo"
    from json_to_recordset(${JSON.stringify(complete)}::json)
      as a ("shipmentId" bigint, "readNo" bigint, numbers jsonb)
    where t.client = ${anyClient(client)} and t.shipment_id = a."shipmentId"
      and t.unlisted_since is null
      and t.read_no <= a."readNo" and (t.read_at is not null or t.package_number = '')
      and not a.numbers ? t.package_number
    returning t.shipment_id || ':' || t.package_number as key`.execute(trx);
  return rows.map(({ key }) => ({ entity: 'parcels', id: null, key, operation: 'unlisted' }));
}

/**
 * Stores the packages of a track-trace list, with the status that the list gives. A package without
 * a number is stored only while no package of its shipment has one.
 */
export async function storeListedParcels(
  trx: Transaction<DB>,
  client: string,
  rows: readonly PackageRow[],
  readNo: number,
): Promise<ParcelResult> {
  const numbered = new Set(
    rows.filter((row) => row.packageNumber !== '').map(({ shipmentId }) => shipmentId),
  );
  const unnumbered = rows.filter(
    (row) => row.packageNumber !== '' || !numbered.has(row.shipmentId),
  );
  if (unnumbered.length === 0) return toResult([]);
  const kept = await maskErasedPackages(trx, client, unnumbered);
  const { rows: written } = await sql<ChangedRow>`
    insert into fulfilment.parcels as t (client, shipment_id, package_number,
      current_track_trace_status,
      current_track_trace_exception_level, read_no, raw)
    select ${client}, i."shipmentId", i."packageNumber", ${takeMembers(stateColumns)}, ${readNo},
      i.raw
    from ${packageSet({ ...stateColumns, raw: ['raw', 'jsonb'] }, kept)}
    where i."packageNumber" <> '' or not exists (
      select from fulfilment.parcels p
      where p.client = ${anyClient(client)} and p.shipment_id = i."shipmentId"
        and p.package_number <> ''
        and p.unlisted_since is null)
    order by i."shipmentId", i."packageNumber"
    on conflict (client, shipment_id, package_number) do update set
      current_track_trace_status = excluded.current_track_trace_status,
      current_track_trace_exception_level = excluded.current_track_trace_exception_level,
      raw = case when t.read_at is null then excluded.raw else t.raw end,
        read_no = excluded.read_no,
      unlisted_since = null, changed_at = now()
      where t.read_no <= excluded.read_no and excluded.current_track_trace_status is not null
        and (t.unlisted_since is not null
          or t.current_track_trace_status is distinct from excluded.current_track_trace_status
          or t.current_track_trace_exception_level is distinct
            from excluded.current_track_trace_exception_level)
    returning ${returnedNames}`.execute(trx);
  return toResult(written.map((row) => toChange('parcels', row)));
}
