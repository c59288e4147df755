import { sql } from 'kysely';
import type { Database } from '../../db/pool.ts';
import { anyClient } from '../../db/values.ts';

/** Columns that we add to those of the service. */
const ourColumns = [
  'client',
  'read_no',
  'first_seen_at',
  'changed_at',
  'unlisted_since',
  'ordered_quantity',
];

/** A stored row, by column. Times are as Postgres writes them in JSON. */
export interface StoredRow {
  readonly columns: Readonly<Record<string, unknown>>;
  /** True if the service no longer has the row. */
  readonly unlisted: boolean;
}

/** Reads all rows of one client in a table. Only for small databases: the demo and the tests. */
export async function readTable(db: Database, client: string, table: string): Promise<StoredRow[]> {
  const { rows } = await sql<StoredRow>`
    select to_jsonb(t) - ${ourColumns}::text[] as columns,
      to_jsonb(t) ->> 'unlisted_since' is not null as unlisted
    from ${sql.table(`fulfilment.${table}`)} t
    where client = ${anyClient(client)}`.execute(db);
  return rows;
}

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
