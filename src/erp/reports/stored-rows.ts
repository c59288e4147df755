import { sql } from 'kysely';
import type { Database } from '../connection/pool.ts';
import { anyClient } from '../connection/values.ts';

/** Columns that we add to those of the service. */
const ourColumns = ['client', 'read_no', 'first_seen_at', 'changed_at', 'unlisted_since', 'ordered_quantity'];

/** A stored row, by column. Times are as Postgres writes them in JSON. */
export interface StoredRow {
  readonly columns: Readonly<Record<string, unknown>>;
  /** True if the service no longer has the row. */
  readonly unlisted: boolean;
}

/** Reads all rows of one client in a table. Only for small databases: the demo and the tests. */
export async function readTable(db: Database, client: string, table: string): Promise<StoredRow[]> {
  const { rows } = await sql<StoredRow>`
    select to_jsonb(t) - ${ourColumns}::text[] as columns, to_jsonb(t) ->> 'unlisted_since' is not null as unlisted
    from ${sql.table(`fulfilment.${table}`)} t
    where client = ${anyClient(client)}`.execute(db);
  return rows;
}

/** Counts the rows of these tables, of the feed and of the quarantine. */
export async function countRows(db: Database, tables: readonly string[]): Promise<Record<string, number>> {
  const counted = [...tables.map((table) => `fulfilment.${table}`), 'fulfilment.changes', 'sync.quarantine'];
  const parts = counted.map((table) => sql`select ${table} as name, count(*) as rows from ${sql.table(table)}`);
  const { rows } = await sql<{ name: string; rows: number }>`
    select name, rows
    from (${sql.join(parts, sql` union all `)}) as counted`.execute(db);
  return Object.fromEntries(rows.map(({ name, rows: count }) => [name.slice(name.indexOf('.') + 1), count]));
}

/** A shipment item with the order of its shipment. */
export interface ShippedLine {
  readonly externalOrderNumber: string | null;
  readonly status: string | null;
  readonly warehouseCode: string | null;
  readonly quantity: number | null;
  readonly sku: string | null;
}

/** Reads the shipment items of the shipments that changed last, at most `limit`. */
export async function readLatestLines(db: Database, limit: number): Promise<ShippedLine[]> {
  return db
    .selectFrom('fulfilment.shipment_overview as s')
    .innerJoin('fulfilment.shipment_items as i', (join) =>
      join.onRef('i.client', '=', 's.client').onRef('i.shipment_id', '=', 's.id'),
    )
    .select([
      's.external_order_number as externalOrderNumber',
      's.status',
      's.warehouse_code as warehouseCode',
      'i.quantity',
      'i.sku',
    ])
    .where('s.external_order_number', 'is not', null)
    .orderBy('s.changed_at', 'desc')
    .orderBy('s.id', 'desc')
    .orderBy('i.id')
    .limit(limit)
    .execute();
}
