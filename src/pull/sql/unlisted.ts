/** Rows that the lists of a stream must show, and the marks of those that they do not. */

import { type Kysely, sql } from 'kysely';
import { firstRealDay } from '../../core/time.ts';
import type { DB } from '../../db/generated/tables.ts';
import { anyClient, anyId } from '../../db/values.ts';
import type { Change } from './feed.ts';
import { type ChildTable, tableRef } from './mirror-tables.ts';
import {
  isConfirmedSince,
  type RunTransaction,
  type StreamTransaction,
} from './stream-transaction.ts';

/** The table whose rows are marked. */
interface UnlistedResource {
  readonly tables: { readonly parent: { readonly name: string } };
  /** Column without which the service does not return a row by id: such a row is not marked. */
  readonly readableWith?: string;
}

/** Marks rows that the service no longer has as unlisted, unless a newer reading found them. */
export async function markUnlisted(
  { trx, client, stream }: StreamTransaction,
  { tables, readableWith = 'id' }: UnlistedResource,
  ids: readonly number[],
  readNo: number,
): Promise<Change[]> {
  if (ids.length === 0) return [];
  const table = tables.parent.name;

  const { rows } = await sql<{ id: number }>`
    update ${sql.table(`fulfilment.${table}`)} t
    set unlisted_since = now(), read_no = ${readNo}
    where client = ${anyClient(client)} and id = any(${ids}::bigint[]) and unlisted_since is null
      and read_no < ${readNo} and ${sql.ref(readableWith)} is not null
      and not ${isConfirmedSince(client, stream, readNo, sql`t.id`)}
    returning id`.execute(trx);
  return rows.map(({ id }) => ({ entity: table, id, operation: 'unlisted' }));
}

/**
 * Finds child rows of these parents that were stored before `before` and that a reading did not
 * bring; at most `limit`.
 */
export async function findUnlistedChildren(
  db: Kysely<DB>,
  client: string,
  table: ChildTable,
  {
    parents,
    seen,
    before,
    limit,
  }: { parents: readonly number[]; seen: readonly number[]; before: Date; limit: number },
): Promise<number[]> {
  const { rows } = await sql<{ id: number }>`
    select t.id
    from ${tableRef(table.name)} t
    where t.client = ${anyClient(client)}
      and ${sql.ref(`t.${table.parentColumn}`)} = any(${parents}::bigint[])
      and not (t.id = any(${seen}::bigint[])) and t.unlisted_since is null
        and t.first_seen_at < ${before}
    order by t.id
    limit ${limit}`.execute(db);
  return rows.map(({ id }) => id);
}

/**
 * Marks child rows that the service no longer has as unlisted, and records a finding for each.
 * Leaves out rows whose parent has a stored reading with number `readNo` or later.
 */
export async function markChildrenUnlisted(
  { trx, client, stream }: StreamTransaction,
  { parent, table }: { readonly parent: string; readonly table: ChildTable },
  ids: readonly number[],
  readNo: number,
): Promise<Change[]> {
  const { rows } = await sql<{ id: number }>`
    with marked as (
      update ${tableRef(table.name)} t
      set unlisted_since = now()
      from ${tableRef(parent)} p
      where t.client = ${anyClient(client)} and t.id = any(${ids}::bigint[])
        and t.unlisted_since is null
        and p.client = t.client and p.id = ${sql.ref(`t.${table.parentColumn}`)}
          and p.read_no < ${readNo}
      returning t.id
    ), recorded as (
      insert into sync.findings (client, stream, finding, id)
      select ${client}, ${stream}, 'extra', id
      from marked
    )
    select id
    from marked
    order by id`.execute(trx);
  return rows.map(({ id }) => ({ entity: table.name, id, operation: 'unlisted' }));
}

/**
 * Number of consecutive complete walks that must lack a row before it is unlisted. A single list
 * may be wrong.
 */
const walksUntilUnlisted = 2;

/** The walks that count together. Polls and reconciliations walk other lists. */
type WalkPass = 'poll' | 'reconcile';

/**
 * Records the rows that a complete walk lacked, in a stream without a read by id: they wait for the
 * next such walk. A poll lists all open rows, so all others stop waiting. It counts on only if the
 * run before it recorded the row, too: a run that was cut short may have shown it.
 * @param unlisted ids of the rows that the walk lacked
 * @returns ids of the rows that enough consecutive walks lacked
 */
export async function recordUnlistedReads(
  { trx, client, stream, run }: RunTransaction,
  pass: WalkPass,
  unlisted: readonly number[],
): Promise<number[]> {
  const resource = `${pass} of ${stream}`;
  const { key } = run.lease;
  if (pass === 'poll')
    await trx
      .deleteFrom('sync.waiting_reads')
      .where('client', '=', anyClient(client))
      .where('resource', '=', resource)
      .where(sql<boolean>`not (id = any(${unlisted}::bigint[]))`)
      .execute();
  if (unlisted.length === 0) return [];

  const { rows } = await sql<{ id: number; tries: number }>`
    insert into sync.waiting_reads as w (client, resource, id, reason, tries, next_at, asked_no)
    select ${client}, ${resource}, i.id, 'not_listed', 1, 'infinity', ${key}
    from unnest(${unlisted}::bigint[]) as i (id)
    order by i.id
    on conflict (client, resource, id) do update set asked_no = excluded.asked_no,
      tries = case when ${pass === 'reconcile'} or w.asked_no = ${key - 1}
        then w.tries + 1 else 1 end
    returning id, tries`.execute(trx);
  return rows.filter(({ tries }) => tries >= walksUntilUnlisted).map(({ id }) => id);
}

/** Forgets that earlier reconciliations lacked these rows, because a page shows them. */
export async function forgetUnlistedReads(
  { trx, client, stream }: StreamTransaction,
  ids: readonly number[],
): Promise<void> {
  await trx
    .deleteFrom('sync.waiting_reads')
    .where('client', '=', anyClient(client))
    .where('resource', '=', `reconcile of ${stream}`)
    .where('id', '=', anyId(ids))
    .execute();
}

/**
 * A date window. Both ends are exclusive, as in the service's filters; null means no bound.
 * YYYY-MM-DD.
 */
export interface DayWindow {
  readonly after: string | null;
  readonly before: string | null;
}

/** The table of a stream, and the dates by which its lists find a row. */
export interface ListedTable {
  readonly table: string;
  /**
   * Attribute for the list's date filters `[gt]` and `[lt]`; null if no such filter covers all
   * rows.
   */
  readonly filter: string | null;
  /**
   * Date columns of the parent. The earliest date tells whether the list still shows the row. The
   * first one is that of the filter. A backfill compares it with its days.
   */
  readonly dates: readonly [string, ...string[]];
  /**
   * Date columns that tell when the resource changed. The latest date tells how late a change was
   * found.
   */
  readonly moved: readonly string[];
  /**
   * Number of days that the list reaches back (docs/interface.md, 5.1 Values); null if it shows
   * everything.
   */
  readonly horizonDays: number | null;
}

/** Returns SQL: these columns of the row t as times. A date before 1970 is none. */
export const dateList = (columns: readonly string[]) =>
  sql.join(columns.map((column) => sql`sync.real_time(${sql.ref(`t.${column}`)}::timestamptz)`));

/**
 * Returns SQL: whether the row t is young enough that the lists must show it, if the service has
 * it. The service does not state by which date it counts the age (docs/interface.md, 5.2 Not
 * shown), so the earliest date is used.
 */
function isYoungEnough({ horizonDays, dates }: ListedTable, serviceNow: Date) {
  if (horizonDays === null) return sql`true`;
  const span = sql`make_interval(days => ${horizonDays - 1})`;
  return sql`least(${dateList(dates)}, t.first_seen_at) > ${serviceNow}::timestamptz - ${span}`;
}

/** A window of a stream, and the time by which the age of its rows is counted. */
export interface ListedRows {
  readonly age: ListedTable;
  /** By the service's clock. */
  readonly serviceNow: Date;
  readonly window: DayWindow;
}

/**
 * Returns SQL: whether a complete walk of a window must have shown the row t. The window is
 * shortened by a day at both ends, because a day in another time zone may begin earlier or later.
 */
function mustBeListed({ age, serviceNow, window: { after, before } }: ListedRows) {
  const column = sql`${sql.ref(`t.${age.dates[0]}`)}::date`;
  const isInside =
    age.filter === null
      ? sql`true`
      : sql`${column} > coalesce(${after}::date + 1, '-infinity')
      and ${column} < coalesce(${before}::date - 1, 'infinity')`;
  return sql`t.unlisted_since is null and ${isInside} and ${isYoungEnough(age, serviceNow)}`;
}

/** Counts the stored rows in a window. */
export async function countRowsInWindow(
  db: Kysely<DB>,
  client: string,
  listed: ListedRows,
): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*)
    from ${sql.table(`fulfilment.${listed.age.table}`)} t
    where t.client = ${anyClient(client)} and ${mustBeListed(listed)}`.execute(db);
  return rows[0]?.count ?? 0;
}

/** A rescan whose windows were walked. */
interface WalkedRescan {
  readonly id: number;
  readonly client: string;
  readonly startedAt: Date | null;
}

/**
 * Finds rows that should have been listed and were not: at most `limit`, in order of id. Rows that
 * were stored after the walk began are left out.
 */
export async function findUnlistedRows(
  db: Kysely<DB>,
  { id, client, startedAt }: WalkedRescan,
  listed: ListedRows,
  limit: number | null,
): Promise<number[]> {
  const { rows } = await sql<{ id: number }>`
    with seen as (select distinct unnest(ids) as id
      from sync.rescan_pages
      where rescan_id = ${id})
    select t.id
    from ${sql.table(`fulfilment.${listed.age.table}`)} t
    where t.client = ${anyClient(client)} and t.first_seen_at < ${startedAt}
      and ${mustBeListed(listed)} and not exists (select from seen where seen.id = t.id)
    order by t.id
    limit ${limit}`.execute(db);
  return rows.map((row) => row.id);
}

/**
 * Finds the oldest real day that is stored. Returns null if there is none, or if the list has no
 * date filter.
 */
export async function findOldestDay(
  db: Kysely<DB>,
  client: string,
  { table, filter, dates: [dayColumn] }: ListedTable,
): Promise<string | null> {
  if (filter === null) return null;

  const day = sql.ref(`t.${dayColumn}`);

  const { rows } = await sql<{ oldest: string | null }>`
    select min(${day}::date) as oldest
    from ${sql.table(`fulfilment.${table}`)} t
    where t.client = ${client} and ${day} >= ${firstRealDay}`.execute(db);
  return rows[0]?.oldest ?? null;
}

/**
 * A kind of rows that change until they reach one status. A row with an unknown status, or none, is
 * still open.
 */
export interface OpenKind {
  readonly table: string;
  /** Name of their stream. Their reads wait under it. */
  readonly stream: string;
  /** The documented statuses of rows that still change. */
  readonly statuses: readonly string[];
  /** The documented status of rows that do not. */
  readonly closed: string;
}

const toTableRef = ({ table }: OpenKind) => sql.table(`fulfilment.${table}`);

/** A row that is open here. */
export interface OpenRow {
  readonly id: number;
  /** Order of a shipment; null for other kinds. */
  readonly orderId: number | null;
  /** True if the row is marked as unlisted. */
  readonly isUnlisted: boolean;
  /** True if it is young enough that the lists must show it. */
  readonly isYoung: boolean;
  /** True if it is in quarantine: a list may show it, but it could not be decoded. */
  readonly isQuarantined: boolean;
}

/** A complete list of the open rows, and when it was read. */
interface OpenList {
  readonly age: ListedTable;
  readonly listed: ReadonlySet<number>;
  /** By the service's clock. */
  readonly serviceNow: Date;
}

/**
 * Number of days after which polls rarely ask for a row that is unlisted, or whose undocumented
 * status does not change: that status may be a final one. The lists show rows of the last 90 days
 * (docs/interface.md, 5.1 Values).
 */
const rarelyAfterDays = 90;
/**
 * Number of days that such a row waits in addition to its pause of one day: it is asked for once a
 * week.
 */
const extraPauseDays = 6;

/**
 * Finds rows that are open here but missing from a complete list of the open rows. Either their
 * status has changed, or the lists do not show them. Returns only the rows that are due for a
 * question, the longest waiting first.
 */
export async function findUnlistedOpenRows(
  db: Kysely<DB>,
  client: string,
  kind: OpenKind,
  { age, listed, serviceNow }: OpenList,
): Promise<OpenRow[]> {
  const orderId = kind.table === 'shipments' ? sql.ref('t.order_id') : sql`null::bigint`;

  const { rows } = await sql<OpenRow>`
    select t.id, ${orderId} as "orderId", t.unlisted_since is not null as "isUnlisted",
      ${isYoungEnough(age, serviceNow)} as "isYoung", exists (
        select from sync.quarantine q
        where q.client = t.client and q.stream = ${kind.stream}
          and q.resource_key = t.id::text) as "isQuarantined"
    from ${toTableRef(kind)} t
    left join sync.waiting_reads w
      on w.client = t.client and w.resource = ${kind.stream} and w.id = t.id
    where t.client = ${anyClient(client)} and t.status is distinct from ${sql.lit(kind.closed)}
      and coalesce(w.next_at <= sync.clock(), true)
      and (coalesce(t.unlisted_since,
        case when not coalesce(t.status = any(${kind.statuses}::text[]), false)
        then t.changed_at end,
          'infinity') > now() - make_interval(days => ${rarelyAfterDays})
        -- A row that was never asked for is asked for once.
        or coalesce(w.next_at, '-infinity')
          <= sync.clock() - make_interval(days => ${extraPauseDays}))
      and not exists (select from unnest(${[...listed]}::bigint[]) as l (id) where l.id = t.id)
    order by w.next_at nulls first, t.id`.execute(db);
  return rows;
}

/** Finds the rows among these ids that are still open here. */
export async function findStillOpen(
  db: Kysely<DB>,
  client: string,
  kind: OpenKind,
  ids: readonly number[],
): Promise<number[]> {
  const { rows } = await sql<{ id: number }>`
    select id
    from ${toTableRef(kind)}
    where client = ${anyClient(client)} and id = any(${ids}::bigint[])
      and status is distinct from ${sql.lit(kind.closed)}`.execute(db);
  return rows.map(({ id }) => id);
}
