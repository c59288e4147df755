/**
 * The packages of shipments, as the look-up and track-trace show them, and the look-ups that
 * follow.
 */

import { type Kysely, sql, type Transaction } from 'kysely';
import { pauses } from '../../core/backoff.ts';
import type { Json } from '../../core/json.ts';
import type { DB } from '../../db/generated/tables.ts';
import { anyClient, anyId } from '../../db/values.ts';
import { toColumn } from '../../service/decoding/fields.ts';
import { findErasedShipments, maskRow } from './erasures.ts';
import { type Change, toChange, type WrittenRow } from './feed.ts';
import {
  columnRefs,
  hasSameKey,
  type MirrorTable,
  returnedNames,
  rowSet,
} from './mirror-tables.ts';
import type { NumberedReading } from './stream-transaction.ts';
import { writeRows } from './upsert.ts';
import { type ParcelReadReason, parcels, removeReads } from './waiting-reads.ts';

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
const packageKey = { shipment_id: 'bigint', package_number: 'text' } as const;

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

/** The packages of shipments. */
export const packages: MirrorTable = {
  name: 'parcels',
  key: Object.keys(packageKey),
  columns: { ...packageKey, ...ownColumns, ...stateColumns },
  since: 'unlisted_since',
  personal: {
    track_and_trace_code: 'null',
    track_and_trace_bar_code: 'null',
    tracking_number: 'null',
    raw: 'mask',
  },
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
  const rows = answers.flatMap(({ readNo, parcels: read }) =>
    read.map((row) => ({ ...row, readNo })),
  );

  const written = await writeParcels(trx, client, await maskErased(trx, client, packages, rows));
  const unlisted = await unlistAbsent(trx, client, answers);
  await planParcelReads(trx, client, answers);
  return [...written, ...unlisted];
}

async function writeParcels(
  trx: Transaction<DB>,
  client: string,
  rows: readonly object[],
): Promise<Change[]> {
  const columns = Object.keys(packages.columns);
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
    from ${rowSet({ ...packages.columns, readNo: 'bigint' }, rows)}
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
    returning ${returnedNames(packages)}, changed_at = now() as changed`.execute(trx);
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
  // The list may not know the status yet.
  const hasStatus = sql`excluded.current_track_trace_status is not null`;

  const { rows: written } = await sql<WrittenRow>`
    insert into fulfilment.parcels as t (client, read_no, ${columnRefs(columns)})
    select ${client}, ${readNo}, ${columnRefs(columns, 'i')}
    from ${rowSet(
      { ...packageKey, ...stateColumns, raw: 'jsonb' },
      await maskErased(trx, client, packages, listed),
    )}
    where i.package_number <> '' or not exists (
      select from fulfilment.parcels p
      where p.client = ${anyClient(client)} and p.shipment_id = i.shipment_id
        and p.package_number <> ''
        and p.unlisted_since is null)
    order by i.shipment_id, i.package_number
    on conflict (client, shipment_id, package_number) do update set
      current_track_trace_status = case when ${hasStatus} then excluded.current_track_trace_status
        else t.current_track_trace_status end,
      current_track_trace_exception_level = case
        when ${hasStatus} then excluded.current_track_trace_exception_level
        else t.current_track_trace_exception_level end,
      raw = case when t.read_at is null then excluded.raw else t.raw end,
      read_no = excluded.read_no, unlisted_since = null, changed_at = now()
      where t.read_no <= excluded.read_no and (t.unlisted_since is not null or ${hasStatus}
        and (t.current_track_trace_status, t.current_track_trace_exception_level) is distinct from
          (excluded.current_track_trace_status, excluded.current_track_trace_exception_level))
    returning ${returnedNames(packages)}`.execute(trx);
  return written.map((row) => toChange('parcels', row));
}

/** Masks the packages of erased orders, and returns the others unchanged. */
async function maskErased(
  trx: Transaction<DB>,
  client: string,
  table: MirrorTable,
  rows: readonly PackageRow[],
): Promise<readonly PackageRow[]> {
  const ids = rows.map((row) => row.shipment_id);
  const erased = await findErasedShipments(trx, client, ids);
  return rows.map((row) => (erased.has(row.shipment_id) ? maskRow(table, row) : row));
}

/** Postpones the planned look-ups of shipments whose packages the track-trace list shows. */
export async function postponeListedParcelReads(
  trx: Transaction<DB>,
  client: string,
  shipmentIds: readonly number[],
): Promise<void> {
  if (shipmentIds.length === 0) return;

  await sql`
    update sync.waiting_reads w
    set reason = 'listed', next_at = sync.clock() + make_interval(secs => ${listedSeconds})
    from (
      select id
      from sync.waiting_reads
      where client = ${anyClient(client)} and resource = ${parcels} and id = ${anyId(shipmentIds)}
        and next_at > sync.clock() and next_at < sync.clock() + interval '2 days'
      order by id
      for update
    ) l
    where w.client = ${anyClient(client)} and w.resource = ${parcels}
      and w.id = l.id`.execute(trx);
}

/** Seconds before packages are looked up that the track-trace list shows. */
const listedSeconds = pauses.listedParcelRead.firstMs / 1_000;

/** A shipment whose packages are due to be looked up. */
export interface DueParcelRead {
  readonly id: number;
  /** Number of look-ups so far that did not help. */
  readonly tries: number;
  /** Time for which it has waited, in milliseconds. */
  readonly waitedMs: number;
  /** When it was shipped; null if that is not known. */
  readonly shippedOn: Date | null;
}

/** Finds the look-ups that are due, the newest shipments first. */
export async function findDueParcelReads(
  db: Kysely<DB>,
  client: string,
  limit: number,
): Promise<DueParcelRead[]> {
  const { rows } = await sql<DueParcelRead>`
    select w.id, w.tries,
      extract(epoch from sync.clock() - w.since)::float8 * 1000 as "waitedMs", (
      select sync.real_time(s.shipped_on)
      from fulfilment.shipments s
      where s.client = ${anyClient(client)} and s.id = w.id) as "shippedOn"
    from sync.waiting_reads w
    where w.client = ${anyClient(client)} and w.resource = ${parcels}
      and w.next_at <= sync.clock()
    order by w.id desc
    limit ${limit}`.execute(db);
  return rows;
}

/** What follows from the answer to a look-up. */
interface ParcelReadPlan {
  readonly shipmentId: number;
  /** Number of the look-up. */
  readonly readNo: number;
  readonly reason: Exclude<ParcelReadReason, 'shipped' | 'listed'>;
  /** Why there is no package, or why some could not be decoded; null otherwise. */
  readonly problem: string | null;
  /**
   * Seconds to the next look-up if track-trace does not know the shipment, or if there is a
   * problem; null: none.
   */
  readonly nextInSeconds: number | null;
}

/**
 * Plans the next look-up of each shipment. A shipment that was asked for during the look-up is left
 * alone. One that was asked about in vain too often stays without a time.
 */
export async function planParcelReads(
  trx: Transaction<DB>,
  client: string,
  answered: readonly ParcelReadPlan[],
): Promise<void> {
  const ids = answered.map(({ shipmentId }) => shipmentId);
  const { rows: tracked } = await sql<{ id: number; isListed: boolean }>`
    select shipment_id as id, bool_or(unlisted_since is null) as "isListed"
    from fulfilment.track_traces
    where client = ${anyClient(client)} and shipment_id = ${anyId(ids)}
    group by shipment_id`.execute(trx);
  const isListed = new Map(tracked.map((row) => [row.id, row.isListed]));

  const done: NumberedReading[] = [];
  const next: object[] = [];
  for (const { shipmentId: id, readNo, problem, reason, nextInSeconds } of answered) {
    const listed = problem === null ? isListed.get(id) : undefined;
    const isLast = problem === null && (listed === false || nextInSeconds === null);

    // While the track-trace list shows one of its packages, its status comes from there. When all
    // have left the list, this look-up has read the last status.
    if (listed) next.push({ id, readNo, problem, reason: 'listed', seconds: listedSeconds });
    else if (isLast) done.push({ id, readNo });
    else next.push({ id, readNo, problem, reason, seconds: nextInSeconds });
  }

  await removeReads({ trx, client, stream: parcels }, done);
  await sql`
    update sync.waiting_reads w
    set words = p.problem, reason = p.reason,
      tries = case p.reason when 'unanswered' then w.tries + 1 when 'read_failed' then w.tries
        else 0 end,
      next_at = coalesce(sync.clock() + make_interval(secs => p.seconds), 'infinity')
    from json_to_recordset(${JSON.stringify(next)}::json) as p (
      id bigint, "readNo" bigint, problem text, reason text, seconds float8)
    where w.client = ${anyClient(client)} and w.resource = ${parcels} and w.id = ${anyId(ids)}
      and w.id = p.id and w.asked_no < p."readNo"`.execute(trx);
}

/**
 * The look-ups of one client that are due, and when the oldest of these shipments was shipped; null
 * if not known.
 */
export type ParcelBacklog = Awaited<ReturnType<typeof readParcelBacklog>>[number];

/** Counts the look-ups that are due, for each client that has any. */
export async function readParcelBacklog(db: Kysely<DB>) {
  return db
    .selectFrom('sync.waiting_reads as w')
    .select((eb) => [
      'w.client',
      eb.fn.countAll<number>().as('shipments'),
      sql<Date | null>`min((
        select sync.real_time(s.shipped_on)
        from fulfilment.shipments s
        where s.client = w.client and s.id = w.id))`.as('oldestShippedOn'),
    ])
    .where('w.resource', '=', parcels)
    .where('w.next_at', '<=', sql<Date>`sync.clock()`)
    .groupBy('w.client')
    .orderBy('w.client')
    .execute();
}

/** The packages that the track-trace list showed. */
export const trackTraces: MirrorTable = {
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
  since: 'unlisted_since',
  personal: { raw: 'mask' },
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
  readonly unlistedShipments: readonly number[];
  /** Ids of shipments that the list names and that are not stored here. */
  readonly unknownShipments: readonly number[];
  readonly changes: readonly Change[];
}

/**
 * A list that lacks more packages than this, and more than half of them, may be cut: its packages
 * are marked only if the next list lacks them, too. An empty list always is such a list.
 */
const toleratedMissing = 5;

/** Packages that a list may have, because entries of it could not be decoded. */
export interface PresentPackages {
  /** Shipments of which it may have any package. */
  readonly shipmentIds: readonly number[];
  /** Numbers of which it may have the package of any shipment. */
  readonly numbers: readonly string[];
}

/**
 * Stores the complete list of packages on their way. Writes the packages that differ, and an event
 * for each one whose state changed. Marks packages that are no longer listed as unlisted; the job
 * pull-parcels reads their last state. If the list may be cut, because it lacks many packages,
 * marks only those that the list before lacked, too.
 * @param present further packages whose entries could not be decoded; null if they may be any
 *   package. Then none is marked.
 */
export async function storeTrackTraces(
  trx: Transaction<DB>,
  client: string,
  read: readonly PackageRow[],
  present: PresentPackages | null,
): Promise<TrackTraceResult> {
  const rows = await maskErased(trx, client, trackTraces, read);
  const listed = await readListed(trx, client);

  const written = await writeRows({ trx, client }, trackTraces, rows);

  const marks = present === null ? [] : judgeListed(listed, rows, present);
  await writeMarks(trx, client, marks);
  const unlisted = marks.filter(({ mark }) => mark === 'unlisted');
  const changes = unlisted.map(
    (row): Change => ({
      ...{ entity: 'track_traces', id: null, operation: 'unlisted' },
      key: toPackageKey(row),
    }),
  );
  return {
    listedBefore: listed.length,
    doubted: marks.filter(({ mark }) => mark === 'noted').length,
    unlistedShipments: [...new Set(unlisted.map((row) => row.shipment_id))],
    unknownShipments: await findUnknownShipments(trx, client, rows),
    changes: [...written, ...changes],
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

type PackageKey = Pick<PackageRow, 'shipment_id' | 'package_number'>;

const toPackageKey = (row: PackageKey) => `${row.shipment_id}:${row.package_number}`;

/** A package that is listed until now. */
interface ListedPackage extends PackageKey {
  /** True if the last list lacked it. */
  readonly isNoted: boolean;
}

async function readListed(trx: Transaction<DB>, client: string): Promise<ListedPackage[]> {
  return trx
    .selectFrom('fulfilment.track_traces')
    .select([
      'shipment_id',
      'package_number',
      sql<boolean>`missing_since is not null`.as('isNoted'),
    ])
    .where('client', '=', anyClient(client))
    .where('unlisted_since', 'is', null)
    .execute();
}

/** A package that was listed until now, by what the list says of it. */
interface MarkedPackage extends ListedPackage {
  /**
   * `unlisted`: it becomes unlisted. `noted`: the list lacks it, and it becomes unlisted if the
   * next one lacks it, too. `found`: the last list lacked it, and this one has it.
   */
  readonly mark: 'unlisted' | 'noted' | 'found';
}

/** Judges the packages that were listed until now, by a list and what else is `present`. */
function judgeListed(
  listed: readonly ListedPackage[],
  rows: readonly PackageRow[],
  { shipmentIds, numbers }: PresentPackages,
): MarkedPackage[] {
  const keys = new Set(rows.map(toPackageKey));
  const [presentShipments, presentNumbers] = [new Set(shipmentIds), new Set(numbers)];
  const isPresent = (row: ListedPackage) =>
    keys.has(toPackageKey(row)) ||
    presentShipments.has(row.shipment_id) ||
    presentNumbers.has(row.package_number);

  const missing = listed.filter((row) => !isPresent(row));
  const isEmpty = rows.length + shipmentIds.length + numbers.length === 0;
  const isDoubted = isEmpty || missing.length > Math.max(toleratedMissing, listed.length / 2);

  return [
    ...missing.map((row): MarkedPackage => {
      const mark = isDoubted && !row.isNoted ? 'noted' : 'unlisted';
      return { ...row, mark };
    }),
    ...listed
      .filter((row) => row.isNoted && isPresent(row))
      .map((row): MarkedPackage => ({ ...row, mark: 'found' })),
  ];
}

async function writeMarks(
  trx: Transaction<DB>,
  client: string,
  marks: readonly MarkedPackage[],
): Promise<void> {
  if (marks.length === 0) return;

  await sql`
    update fulfilment.track_traces t
    set unlisted_since = case i.mark when 'unlisted' then coalesce(t.missing_since, now()) end,
      missing_since = case i.mark when 'noted' then now() end
    from ${rowSet({ ...packageKey, mark: 'text' }, marks)}
    where t.client = ${anyClient(client)} and ${hasSameKey(trackTraces)}`.execute(trx);
}
