import { sql } from 'kysely';
import type { Database } from '../../db/pool.ts';

/** Returns true if a row of a client has this id, whether the service still lists it or not. */
export async function isStored(
  db: Database,
  table: string,
  client: string,
  id: number,
): Promise<boolean> {
  const { rows } = await sql`
    select from ${sql.table(`fulfilment.${table}`)}
    where client = ${client} and id = ${id}`.execute(db);
  return rows.length > 0;
}

/** Counts the rows of these tables, of the feed and of the quarantine. */
export async function countRows(
  db: Database,
  tables: readonly string[],
): Promise<Record<string, number>> {
  const counted = [
    ...tables.map((table) => `fulfilment.${table}`),
    'fulfilment.changes',
    'sync.quarantine',
  ];

  const parts = counted.map(
    (table) => sql`select ${table} as name, count(*) as rows from ${sql.table(table)}`,
  );

  const { rows } = await sql<{ name: string; rows: number }>`
    select name, rows
    from (${sql.join(parts, sql` union all `)}) as counted`.execute(db);

  return Object.fromEntries(
    rows.map(({ name, rows: count }) => [name.slice(name.indexOf('.') + 1), count]),
  );
}
