import { sql, type Transaction } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';
import { anyClient } from '../../db/values.ts';

/**
 * Columns with errors and warnings of runs, jobs and holds, and the time of the text. They may
 * quote the service.
 */
export const quotingColumns: readonly {
  readonly table: string;
  readonly column: string;
  readonly at: string;
  readonly isList?: true;
}[] = [
  { table: 'sync.runs', column: 'error', at: 'finished_at' },
  { table: 'sync.runs', column: 'warnings', at: 'finished_at', isList: true },
  { table: 'sync.jobs', column: 'last_error', at: 'last_finished_at' },
  { table: 'sync.jobs', column: 'last_skip_reason', at: 'last_skip_at' },
  { table: 'sync.jobs', column: 'warnings', at: 'last_finished_at', isList: true },
  { table: 'sync.rescans', column: 'error', at: 'finished_at' },
  { table: 'sync.service_health', column: 'reason', at: 'since' },
  { table: 'sync.waiting_reads', column: 'words', at: 'since' },
];

/** Matches a quotation of src/core/quote.ts. One that was cut has no end. */
const quotation = '«[^»]*(»|$)';

/**
 * Removes the quoted words of others from the errors and warnings of a client. Such words may
 * repeat data of an order, and nothing tells of which one.
 * @param days age of the texts; null: of any age
 * @returns the number of rows that were changed, by table
 */
export async function removeQuotedWords(
  trx: Transaction<DB>,
  client: string,
  days: number | null,
): Promise<Readonly<Record<string, number>>> {
  const counts: Record<string, number> = {};
  for (const { table, column, at, isList } of quotingColumns) {
    const ref = sql.ref(`t.${column}`);
    const replaced = isList
      ? sql`array(
        select regexp_replace(w.text, ${quotation}, '«…»', 'g')
        from unnest(${ref}) with ordinality as w (text, place)
        order by w.place)`
      : sql`regexp_replace(${ref}, ${quotation}, '«…»', 'g')`;

    const { numAffectedRows } = await sql`
      update ${sql.table(table)} t
      set ${sql.ref(column)} = ${replaced}
      where t.client = ${anyClient(client)} and ${ref}::text ~ '«(?!…»)'
        and (${days}::integer is null
          or ${sql.ref(`t.${at}`)} < now() - make_interval(days => ${days}))`.execute(trx);

    const changed = Number(numAffectedRows ?? 0);
    if (changed > 0) counts[table] = (counts[table] ?? 0) + changed;
  }

  return counts;
}
