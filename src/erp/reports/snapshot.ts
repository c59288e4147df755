import { sql } from 'kysely';
import { anyClient } from '../connection/any-client.ts';
import type { Database } from '../connection/pool.ts';

/** Columns that are ours, not the service's. */
const own = ['client', 'read_no', 'first_seen_at', 'changed_at', 'unlisted_since'];

/** A row as stored, by column; times as Postgres writes them in JSON. */
export interface StoredRow {
  readonly columns: Readonly<Record<string, unknown>>;
  /** Whether the service was found not to have it. */
  readonly unlisted: boolean;
}

/** All rows of one client in a table. For small databases: the demo and the tests. */
export async function readTable(db: Database, client: string, table: string): Promise<StoredRow[]> {
  const { rows } = await sql<StoredRow>`
    select to_jsonb(t) - ${own}::text[] as columns, to_jsonb(t) ->> 'unlisted_since' is not null as unlisted
    from ${sql.table(`fulfilment.${table}`)} t
    where client = ${anyClient(client)}`.execute(db);
  return rows;
}

/** How many rows each of these tables holds, with the feed and the quarantine. */
export async function countRows(db: Database, tables: readonly string[]): Promise<Record<string, number>> {
  const counted = [...tables.map((table) => `fulfilment.${table}`), 'fulfilment.changes', 'sync.quarantine'];
  const parts = counted.map((table) => sql`select ${table} as name, count(*) as rows from ${sql.table(table)}`);
  const { rows } = await sql<{ name: string; rows: number }>`
    select name, rows
    from (${sql.join(parts, sql` union all `)}) as counted`.execute(db);
  return Object.fromEntries(rows.map(({ name, rows: count }) => [name.slice(name.indexOf('.') + 1), count]));
}

/** A line of a parcel with the order it is for. */
export interface ShippedLine {
  readonly externalOrderNumber: string | null;
  readonly status: string | null;
  readonly warehouseCode: string | null;
  readonly quantity: number | null;
  readonly sku: string | null;
  readonly changedAt: Date;
}

/** What changed last, as a person would want to read it. */
export async function latestLines(db: Database, limit: number): Promise<ShippedLine[]> {
  return db
    .selectFrom('fulfilment.shipments as s')
    .innerJoin('fulfilment.shipment_items as i', (join) =>
      join.onRef('i.client', '=', 's.client').onRef('i.shipment_id', '=', 's.id'),
    )
    .select([
      's.external_order_number as externalOrderNumber',
      's.status',
      's.warehouse_code as warehouseCode',
      'i.quantity',
      'i.sku',
      's.changed_at as changedAt',
    ])
    .where('s.external_order_number', 'is not', null)
    .orderBy('s.changed_at', 'desc')
    .orderBy('s.id', 'desc')
    .orderBy('i.id')
    .limit(limit)
    .execute();
}
