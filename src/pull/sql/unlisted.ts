import { type Kysely, sql } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';
import { anyClient } from '../../db/values.ts';
import type { Change } from './feed.ts';
import { type ChildTable, tableRef } from './mirror-tables.ts';
import { isConfirmedSince, type StreamTransaction } from './stream-transaction.ts';

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

/** The walk whose list lacked rows. */
export interface UnlistingWalk {
  readonly pass: 'poll' | 'reconcile';
  /** The number of the reconciliation; null for a poll. */
  readonly rescanId?: number | null;
}

/**
 * Records the rows that a complete walk lacked, in a stream without a read by id: they wait for the
 * next such walk. Removes those that this walk showed. Polls and reconciliations walk other lists,
 * so each counts its own.
 * @param unlisted ids of the rows that the walk lacked
 * @returns ids of the rows that enough consecutive walks lacked
 */
export async function recordUnlistedReads(
  { trx, client, stream }: StreamTransaction,
  { pass, rescanId = null }: UnlistingWalk,
  unlisted: readonly number[],
): Promise<number[]> {
  const resource = `${pass} of ${stream}`;
  // A reconciliation does not read everything, so only the rows on its pages count as seen. A poll
  // lists all open rows, so every other row counts as seen.
  const seen =
    rescanId === null
      ? sql<boolean>`not (id = any(${unlisted}::bigint[]))`
      : sql<boolean>`id in (
          select unnest(ids) from sync.rescan_pages where rescan_id = ${rescanId})`;

  await trx
    .deleteFrom('sync.waiting_reads')
    .where('client', '=', anyClient(client))
    .where('resource', '=', resource)
    .where(seen)
    .execute();
  if (unlisted.length === 0) return [];

  const { rows } = await sql<{ id: number; tries: number }>`
    insert into sync.waiting_reads as w (client, resource, id, reason, tries, next_at)
    select ${client}, ${resource}, i.id, 'not_listed', 1, 'infinity'
    from unnest(${unlisted}::bigint[]) as i (id)
    order by i.id
    on conflict (client, resource, id) do update set tries = w.tries + 1
    returning id, tries`.execute(trx);
  return rows.filter(({ tries }) => tries >= walksUntilUnlisted).map(({ id }) => id);
}
