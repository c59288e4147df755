/** Rows that the lists of a stream must show. */

import { type Kysely, sql } from 'kysely';
import { firstRealDay } from '../../core/time.ts';
import type { DB } from '../../db/generated/tables.ts';
import { anyClient } from '../../db/values.ts';
import type { OpenKind } from './waiting-reads.ts';

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
  /** Column of the filter. A backfill compares it with its days. */
  readonly dayColumn: string;
  /** Date columns of the parent. The earliest date tells whether the list still shows the row. */
  readonly dates: readonly string[];
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
  const column = sql`${sql.ref(`t.${age.dayColumn}`)}::date`;
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
  { table, filter, dayColumn }: ListedTable,
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
 * Ids of open rows that a list did not show. `unlisted`: the list must have shown them. `marked`:
 * they are marked as unlisted already. `tooOld`: they are too old for the list.
 */
interface UnlistedOpenRows {
  readonly unlisted: readonly number[];
  readonly marked: readonly number[];
  readonly tooOld: readonly number[];
}

/** Sorts the rows that are open here but missing from `listed`, for a kind without a read by id. */
export async function sortUnlistedOpenRows(
  db: Kysely<DB>,
  client: string,
  kind: OpenKind,
  asked: { readonly age: ListedTable; readonly listed: readonly number[]; readonly now: Date },
): Promise<UnlistedOpenRows> {
  const { rows } = await sql<{ id: number; marked: boolean; young: boolean }>`
    select t.id, t.unlisted_since is not null as marked,
      ${isYoungEnough(asked.age, asked.now)} as young
    from ${sql.table(`fulfilment.${kind.table}`)} t
    where t.client = ${anyClient(client)} and t.status is distinct from ${sql.lit(kind.closed)}
      and not exists (select from unnest(${asked.listed}::bigint[]) as l (id) where l.id = t.id)
      -- Leaves out resources in quarantine: the list shows them, but they could not be decoded.
      and not exists (
        select from sync.quarantine q
        where q.client = t.client and q.stream = ${kind.stream} and q.resource_key = t.id::text)
    order by t.id`.execute(db);
  const ids = (wanted: (row: (typeof rows)[number]) => boolean) =>
    rows.filter(wanted).map(({ id }) => id);
  return {
    marked: ids(({ marked }) => marked),
    unlisted: ids(({ marked, young }) => !marked && young),
    tooOld: ids(({ marked, young }) => !marked && !young),
  };
}
