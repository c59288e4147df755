import { type Kysely, sql } from 'kysely';
import { anyClient } from '../connection/values.ts';
import type { DB } from '../generated/tables.ts';
import type { StreamTransaction } from '../runs/stream-transaction.ts';
import type { Change } from './feed.ts';
import { type ChildTable, tableRef } from './mirror-tables.ts';

/**
 * Finds child rows of these parents that were stored before `before` and that a reading did not bring; at most `limit`.
 */
export async function findUnseenChildren(
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
    where t.client = ${anyClient(client)} and ${sql.ref(`t.${table.parentColumn}`)} = any(${parents}::bigint[])
      and not (t.id = any(${seen}::bigint[])) and t.unlisted_since is null and t.first_seen_at < ${before}
    order by t.id
    limit ${limit}`.execute(db);
  return rows.map(({ id }) => id);
}

/**
 * Marks child rows that the service no longer has as unlisted, and records a finding for each. Leaves out rows whose
 * parent has a stored reading with number `readNo` or later.
 */
export async function markChildrenUnlisted(
  { trx, client, stream }: StreamTransaction,
  parent: string,
  table: ChildTable,
  ids: readonly number[],
  readNo: number,
): Promise<Change[]> {
  const { rows } = await sql<{ id: number }>`
    with gone as (
      update ${tableRef(table.name)} t
      set unlisted_since = now()
      from ${tableRef(parent)} p
      where t.client = ${anyClient(client)} and t.id = any(${ids}::bigint[]) and t.unlisted_since is null
        and p.client = t.client and p.id = ${sql.ref(`t.${table.parentColumn}`)} and p.read_no < ${readNo}
      returning t.id
    ), recorded as (
      insert into sync.findings (client, stream, finding, id)
      select ${client}, ${stream}, 'extra', id
      from gone
    )
    select id
    from gone
    order by id`.execute(trx);
  return rows.map(({ id }) => ({ entity: table.name, id, operation: 'unlisted' }));
}
