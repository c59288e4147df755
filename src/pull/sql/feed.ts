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

/**
 * A row without a bigint id that an upsert wrote: its key in the feed, and its changed columns;
 * null if it is new.
 */
export interface ChangedRow {
  readonly key: string;
  readonly changedColumns: readonly string[] | null;
}

/** Returns the feed entry of a row that an upsert wrote. */
export function toChange(
  entity: string,
  {
    id = null,
    key,
    changedColumns,
  }: { id?: number | null; key: string | null } & Pick<ChangedRow, 'changedColumns'>,
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
 * Returns SQL for the RETURNING of an upsert: null for a new row, which costs nothing, else the
 * changed columns.
 */
export const changedColumnsOrNew = (
  table: RawBuilder<unknown>,
  key: readonly string[],
  columns: readonly string[],
) =>
  sql<string[] | null>`
    case when xmax <> 0 then coalesce(${listChangedColumns(table, key, columns)}, '{}')
      end as "changedColumns"`;

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
  if (!isRescan) {
    await insert.execute(trx);
    return;
  }
  // No other transaction draws a seq in between.
  await sql`
    with added as (${insert} returning seq)
    insert into sync.rescanned_changes (first_seq, last_seq)
    select min(seq), max(seq)
    from added`.execute(trx);
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
