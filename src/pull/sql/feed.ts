import { type Kysely, type RawBuilder, sql, type Transaction } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';

/** One change for the ERP's feed: which table, which row, what happened. */
export type Change = {
  readonly entity: string;
  readonly id: number | null;
  /** Set if `id` does not identify a row of this table. */
  readonly key?: string | null;
} & (
  | { readonly operation: 'created' | 'unlisted' | 'removed' }
  | { readonly operation: 'updated'; readonly changedColumns: readonly string[] }
);

/** A row that an upsert wrote, with what the feed says of it. */
export interface WrittenRow {
  /** Null if the table has no bigint id. */
  readonly id: number | null;
  /** Null if the id identifies the row. */
  readonly key: string | null;
  /** The names of the columns whose values differ from those before; null if the row is new. */
  readonly changedColumns: readonly string[] | null;
}

/** Returns the feed entry of a row that an upsert wrote. */
export function toChange(
  entity: string,
  { id = null, key, changedColumns }: Omit<WrittenRow, 'id'> & Partial<Pick<WrittenRow, 'id'>>,
): Change {
  if (changedColumns === null) return { entity, id, key, operation: 'created' };
  return { entity, id, key, operation: 'updated', changedColumns };
}

/**
 * Returns SQL for RETURNING: `facts` of the written row t as it was before the statement, named f.
 * This subquery reads the table as it was when the statement began. It is null for a row that was
 * not stored.
 */
export const selectBefore = (
  table: RawBuilder<unknown>,
  key: readonly string[],
  facts: RawBuilder<unknown>,
) => sql`(
      select ${facts}
      from ${table} f
      where f.client = t.client and ${sql.join(
        key.map((column) => {
          const [before, after] = [sql.ref(`f.${column}`), sql.ref(`t.${column}`)];
          return sql`${before} >= ${after} and ${before} <= ${after}`;
        }),
        sql` and `,
      )}
      -- Only the primary key has this order. Planned on an empty table, a comparison for equality
      -- could use another index of the client, and read all its rows for each row.
      order by ${sql.join(['client', ...key].map((column) => sql.ref(`f.${column}`)))}
      limit 1)`;

/**
 * Writes changes that become entries of the feed. Call it after the statements that changed the
 * rows: while these are locked, no other transaction writes a change of them.
 * @param isRescan true if a reconciliation, backfill, refetch or replay found them. Then business
 *   events are made of recent ones only.
 */
export async function appendChanges(
  trx: Transaction<DB>,
  client: string,
  changes: readonly Change[],
  isRescan = false,
): Promise<void> {
  if (changes.length === 0) return;
  const columns = changes.map((change) =>
    change.operation === 'updated' ? change.changedColumns.join() : null,
  );

  await sql`
    insert into sync.new_changes (client, entity, id, key, operation, changed_columns, is_rescan)
    select ${client}, c.entity, c.id, c.key, c.operation, string_to_array(c.columns, ','),
      ${isRescan}
    from unnest(${changes.map(({ entity }) => entity)}::text[],
      ${changes.map(({ id }) => id)}::bigint[],
      ${changes.map(({ key }) => key ?? null)}::text[],
      ${changes.map(({ operation }) => operation)}::text[],
      ${columns}::text[])
      with ordinality as c (entity, id, key, operation, columns, place)
    order by c.place`.execute(trx);
}

/** Maximum number of changes that one transaction moves to the feed. */
export const maxNumbered = 5_000;

/** What one transaction moved to the feed. */
export interface NumberedChanges {
  /** Number of changes; null if another transaction moves some. */
  readonly numbered: number | null;
  /** Ids of the outbox rows that they are about. */
  readonly outboxIds: readonly number[];
}

/**
 * Moves the oldest committed changes to the feed, in one transaction of the server.
 * @param whole true to search also where everything was moved before: another server may have given
 *   other numbers to transactions
 */
export async function numberChanges(db: Kysely<DB>, whole = false): Promise<NumberedChanges> {
  const { rows } = await sql<NumberedChanges>`
    select numbered, coalesce(to_json(outbox_ids), '[]') as "outboxIds"
    from sync.number_changes(${maxNumbered}, ${whole})`.execute(db);
  return rows[0] ?? { numbered: 0, outboxIds: [] };
}

/** Number of changes that the read of the backlog counts at most. */
const maxCounted = 100_000;

/** Changes that are not in the feed yet. */
export interface FeedBacklog {
  /** Number of changes, at most 100,000. */
  readonly waiting: number;
  /** When the transaction of the oldest one began; null if none waits. */
  readonly oldestAt: Date | null;
}

/** Reads how many committed changes are not in the feed yet. */
export async function readFeedBacklog(db: Kysely<DB>): Promise<FeedBacklog> {
  const { rows } = await sql<FeedBacklog>`
    select count(*)::int as waiting, min(changed_at) as "oldestAt"
    from (select changed_at from sync.new_changes limit ${maxCounted}) n`.execute(db);
  return rows[0] ?? { waiting: 0, oldestAt: null };
}
