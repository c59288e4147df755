import { sql, type Transaction } from 'kysely';
import type { DB } from '../generated/tables.ts';

/** One change for the ERP's feed: which table, which row, what happened. */
export interface Change {
  readonly entity: string;
  readonly id: number | null;
  /** Set if `id` does not identify a row of this table. */
  readonly key?: string | null;
  readonly operation: 'created' | 'updated' | 'unlisted' | 'removed';
}

/**
 * Appends changes to the feed. It must be the last statement of its transaction. From here to the commit all other
 * writers of the feed wait, so that seq rises in the order of commits.
 */
export async function appendChanges(trx: Transaction<DB>, client: string, changes: readonly Change[]): Promise<void> {
  if (changes.length === 0) return;
  await sql`
    insert into fulfilment.changes (client, entity, id, key, operation)
    select ${client}, c.entity, c.id, c.key, c.operation
    from unnest(${changes.map(({ entity }) => entity)}::text[], ${changes.map(({ id }) => id)}::bigint[],
                ${changes.map(({ key }) => key ?? null)}::text[], ${changes.map(({ operation }) => operation)}::text[])
      with ordinality as c (entity, id, key, operation, place)
    order by c.place`.execute(trx);
}
