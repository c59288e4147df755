/** Writes the packages of shipments, as the look-up and track-trace show them. */

import { sql, type Transaction } from 'kysely';
import type { Json } from '../../core/json.ts';
import { maskJson } from '../../core/personal-data.ts';
import type { DB } from '../../db/generated/tables.ts';
import { anyClient } from '../../db/values.ts';
import { toColumn } from '../../service/decoding/fields.ts';
import { findErasedShipments, maskRow } from './erasures.ts';
import { type Change, toChange, type WrittenRow } from './feed.ts';
import { columnRefs, type MirrorTable, returnedNames, rowSet } from './mirror-tables.ts';
import { type ParcelReadPlan, planParcelReads } from './parcel-reads.ts';

/** A package of a shipment, by column. A shipment has each number at most once. */
export interface PackageRow {
  readonly shipment_id: number;
  /** Empty if the package represents the whole shipment. */
  readonly package_number: string;
  readonly raw: Json;
  readonly [column: string]: unknown;
}

/** Returns a package by column: the member `packageNumber` is `package_number`. */
export const toPackageRow = (item: {
  readonly shipmentId: number;
  readonly [member: string]: unknown;
}) =>
  Object.fromEntries(
    Object.entries(item).map(([member, value]) => [toColumn(member), value]),
  ) as PackageRow;

/** The answer to one look-up. */
export interface ParcelAnswer extends ParcelReadPlan {
  /** Packages of the shipment, each number once. */
  readonly parcels: readonly PackageRow[];
}

/** The key of a package, without the client. */
export const packageKey = { shipment_id: 'bigint', package_number: 'text' } as const;

/** What the track-trace list tells of a package, too. */
const stateColumns = {
  current_track_trace_status: 'text',
  current_track_trace_exception_level: 'text',
};
/** What only a look-up fills. */
const ownColumns = {
  collo_number: 'text',
  track_and_trace_code: 'text',
  track_and_trace_bar_code: 'text',
  return_package_number: 'text',
  shipping_date: 'timestamptz',
  number_of_colli: 'integer',
  tracking_number: 'text',
  shipment_items: 'jsonb',
  raw: 'jsonb',
};

const parcels: MirrorTable = {
  name: 'parcels',
  key: Object.keys(packageKey),
  columns: { ...packageKey, ...ownColumns, ...stateColumns },
  telling: ['raw'],
  since: 'unlisted_since',
};

/**
 * Stores the answers of look-ups, and plans the next ones. Packages that an earlier look-up
 * returned, and this one does not, become unlisted. The status of a newer track-trace list is not
 * overwritten.
 */
export async function storeParcels(
  trx: Transaction<DB>,
  client: string,
  answers: readonly ParcelAnswer[],
): Promise<Change[]> {
  const ids = answers.map(({ shipmentId }) => shipmentId);
  const erased = await findErasedShipments(trx, client, ids);
  const rows = answers.flatMap(({ shipmentId, readNo, parcels: read }) =>
    read.map((row) => ({ ...(erased.has(shipmentId) ? maskRow('parcels', row) : row), readNo })),
  );

  const written = await writeParcels(trx, client, rows);
  const unlisted = await unlistAbsent(trx, client, answers);
  await planParcelReads(trx, client, answers);
  return [...written, ...unlisted];
}

async function writeParcels(
  trx: Transaction<DB>,
  client: string,
  rows: readonly object[],
): Promise<Change[]> {
  const columns = Object.keys(parcels.columns);
  const overwritten = Object.keys(ownColumns).map(
    (column) => sql`${sql.ref(column)} = ${sql.ref(`excluded.${column}`)}`,
  );
  // If a later reading of the track-trace list is stored, its status stays.
  const states = Object.keys(stateColumns).map(
    (column) => sql`${sql.ref(column)} = case when t.read_no > excluded.read_no
        then ${sql.ref(`t.${column}`)} else ${sql.ref(`excluded.${column}`)} end`,
  );

  const { rows: written } = await sql<WrittenRow & { readonly changed: boolean }>`
    insert into fulfilment.parcels as t (client, read_at, read_no, ${columnRefs(columns)})
    select ${client}, now(), i."readNo", ${columnRefs(columns, 'i')}
    from ${rowSet({ ...parcels.columns, readNo: 'bigint' }, rows)}
    order by i.shipment_id, i.package_number
    on conflict (client, shipment_id, package_number) do update
    set ${sql.join([...overwritten, ...states])},
      changed_at = case when t.raw is distinct from excluded.raw or t.unlisted_since is not null
        or t.read_no <= excluded.read_no
          and (t.current_track_trace_status, t.current_track_trace_exception_level)
          is distinct from (excluded.current_track_trace_status,
            excluded.current_track_trace_exception_level)
        then excluded.changed_at else t.changed_at end,
      read_at = excluded.read_at, read_no = greatest(t.read_no, excluded.read_no),
      unlisted_since = null
    returning ${returnedNames(parcels)}, changed_at = now() as changed`.execute(trx);
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
    .filter(({ parcels: read, problem }) => problem === null && read.length > 0)
    .map(({ shipmentId, readNo, parcels: read }) => ({
      ...{ shipmentId, readNo },
      numbers: read.map((row) => row.package_number),
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
): Promise<Change[]> {
  const hasNumber = (row: PackageRow) => row.package_number !== '';
  const numbered = new Set(rows.filter(hasNumber).map((row) => row.shipment_id));
  const listed = rows.filter((row) => hasNumber(row) || !numbered.has(row.shipment_id));
  if (listed.length === 0) return [];

  const columns = ['shipment_id', 'package_number', ...Object.keys(stateColumns), 'raw'];

  const { rows: written } = await sql<WrittenRow>`
    insert into fulfilment.parcels as t (client, read_no, ${columnRefs(columns)})
    select ${client}, ${readNo}, ${columnRefs(columns, 'i')}
    from ${rowSet(
      { ...packageKey, ...stateColumns, raw: 'jsonb' },
      await maskErasedPackages(trx, client, listed),
    )}
    where i.package_number <> '' or not exists (
      select from fulfilment.parcels p
      where p.client = ${anyClient(client)} and p.shipment_id = i.shipment_id
        and p.package_number <> ''
        and p.unlisted_since is null)
    order by i.shipment_id, i.package_number
    on conflict (client, shipment_id, package_number) do update set
      current_track_trace_status = excluded.current_track_trace_status,
      current_track_trace_exception_level = excluded.current_track_trace_exception_level,
      raw = case when t.read_at is null then excluded.raw else t.raw end,
      read_no = excluded.read_no, unlisted_since = null, changed_at = now()
      where t.read_no <= excluded.read_no and excluded.current_track_trace_status is not null
        and (t.unlisted_since is not null
          or t.current_track_trace_status is distinct from excluded.current_track_trace_status
          or t.current_track_trace_exception_level is distinct
            from excluded.current_track_trace_exception_level)
    returning ${returnedNames(parcels)}`.execute(trx);
  return written.map((row) => toChange('parcels', row));
}

/** Masks the packages of erased orders, and returns the others unchanged. */
export async function maskErasedPackages(
  trx: Transaction<DB>,
  client: string,
  rows: readonly PackageRow[],
): Promise<readonly PackageRow[]> {
  const ids = rows.map((row) => row.shipment_id);
  const erased = await findErasedShipments(trx, client, ids);
  return rows.map((row) =>
    erased.has(row.shipment_id) ? { ...row, raw: maskJson(row.raw) } : row,
  );
}
