import { type RawBuilder, sql, type Transaction } from 'kysely';
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
 * Returns SQL for RETURNING: the names of the columns in which the written row t differs from
 * itself before the statement. This subquery reads the table as it was when the statement began. It
 * is null for a row that was not stored.
 */
export const listChangedColumns = (
  table: RawBuilder<unknown>,
  key: readonly string[],
  columns: readonly string[],
) => sql`(
      select array_remove(array[${sql.join(
        columns.map((column) => {
          const [before, after] = [sql.ref(`f.${column}`), sql.ref(`t.${column}`)];
          return sql`case when ${before} is distinct from ${after} then ${sql.lit(column)} end`;
        }),
      )}], null)
      from ${table} f
      where f.client = t.client and ${sql.join(
        key.map((column) => sql`${sql.ref(`f.${column}`)} = ${sql.ref(`t.${column}`)}`),
        sql` and `,
      )})`;

/**
 * Appends changes to the feed. It must be the last statement of its transaction. From here to the
 * commit all other writers of the feed wait, so that seq rises in the order of commits.
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
  const insert = insertChanges(client, changes);
  // No other transaction draws a seq in between.
  const insertAndNote = sql`
    with added as (${insert} returning seq)
    insert into sync.rescanned_changes (first_seq, last_seq)
    select min(seq), max(seq)
    from added`;

  await (isRescan ? insertAndNote : insert).execute(trx);
}

/** SQL: adds the entries of changes. */
function insertChanges(client: string, changes: readonly Change[]) {
  const columns = changes.map((change) =>
    change.operation === 'updated' ? change.changedColumns.join() : null,
  );
  return sql`
    insert into fulfilment.changes (client, entity, id, key, operation, changed_columns)
    select ${client}, c.entity, c.id, c.key, c.operation, string_to_array(c.columns, ',')
    from unnest(${changes.map(({ entity }) => entity)}::text[],
      ${changes.map(({ id }) => id)}::bigint[],
                ${changes.map(({ key }) => key ?? null)}::text[],
                  ${changes.map(({ operation }) => operation)}::text[],
                ${columns}::text[])
      with ordinality as c (entity, id, key, operation, columns, place)
    order by c.place`;
}
