import { type Kysely, sql } from 'kysely';
import { firstRealDay } from '../../core/time.ts';
import type { DB } from '../../db/generated/tables.ts';
import { anyClient } from '../../db/values.ts';
import { isYoungEnough, type ListedTable } from './age.ts';
import type { DayWindow, Rescan } from './rescans.ts';

/** The table of a stream, and the time by which the age of its rows is counted. */
export interface ListedRows {
  readonly age: ListedTable;
  /** By the service's clock. */
  readonly serviceNow: Date;
}

/**
 * Returns SQL: whether a complete walk of these windows must have shown the row t. Each window is
 * shortened by a day at both ends, because a day in another time zone may begin earlier or later.
 */
function insideWindows({ age, serviceNow }: ListedRows, windows: readonly DayWindow[]) {
  const inAny = windows.map(({ after, before }) => {
    if (age.filter === null) return sql`true`;
    const column = sql`${sql.ref(`t.${age.dayColumn}`)}::date`;
    return sql`(
      ${column} > coalesce(${after}::date + 1, '-infinity')
      and ${column} < coalesce(${before}::date - 1, 'infinity'))`;
  });
  return sql`(${sql.join(inAny, sql` or `)}) and ${isYoungEnough(age, serviceNow)}`;
}

/** Counts the stored rows in these windows. */
export async function countRowsInWindows(
  db: Kysely<DB>,
  client: string,
  listed: ListedRows,
  windows: readonly DayWindow[],
): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*)
    from ${sql.table(`fulfilment.${listed.age.table}`)} t
    where t.client = ${anyClient(client)} and t.unlisted_since is null
      and ${insideWindows(listed, windows)}`.execute(db);
  return rows[0]?.count ?? 0;
}

/**
 * Finds rows that should have been listed and were not: at most `limit`, in order of id, after
 * `afterId`. Rows that were stored after the walk began are left out.
 */
export async function findUnseenRows(
  db: Kysely<DB>,
  { id, client, startedAt, windows }: Rescan,
  listed: ListedRows,
  { limit, afterId = null }: { readonly limit: number; readonly afterId?: number | null },
): Promise<number[]> {
  const { rows } = await sql<{ id: number }>`
    with seen as (select distinct unnest(ids) as id
      from sync.rescan_pages
      where rescan_id = ${id})
    select t.id
    from ${sql.table(`fulfilment.${listed.age.table}`)} t
    where t.client = ${anyClient(client)} and t.unlisted_since is null
      and t.first_seen_at < ${startedAt}
      and ${insideWindows(listed, windows ?? [])}
      and (${afterId}::bigint is null or t.id > ${afterId})
        and not exists (select from seen where seen.id = t.id)
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
