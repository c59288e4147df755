import type { TestDatabase } from '../database.ts';

/** A column of schema fulfilment. */
interface Column {
  readonly table: string;
  readonly column: string;
  readonly isKey: boolean;
  /** Comment of the table. */
  readonly comment: string;
}

/** Links that follow from the names of columns. The database has few foreign keys: lists arrive in any order. */
const parents: Readonly<Record<string, string>> = {
  order_id: 'orders',
  order_item_id: 'order_items',
  shipment_id: 'shipments',
  shipment_item_id: 'shipment_items',
  inbound_id: 'inbounds',
  inbound_packing_slip_id: 'inbound_packing_slips',
  inbound_packing_slip_item_id: 'inbound_packing_slip_items',
  return_merchandise_authorization_id: 'return_merchandise_authorizations',
  return_merchandise_authorization_item_id: 'return_merchandise_authorization_items',
  return_item_id: 'return_items',
};

/** Renders docs/tables.md: a diagram and a list of the tables that the ERP reads. */
export async function renderTablePage(database: TestDatabase): Promise<string> {
  const columns = await database.query<Column>(`
    select c.relname as "table", a.attname as "column", coalesce(a.attnum = any(i.indkey), false) as "isKey", obj_description(c.oid) as comment
    from pg_class c
    join pg_namespace n on n.oid = c.relnamespace
    join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    left join pg_index i on i.indrelid = c.oid and i.indisprimary
    where n.nspname = 'fulfilment' and c.relkind = 'r'
    order by c.relname, a.attnum`);
  const tables = Map.groupBy(columns, ({ table }) => table);
  const links = columns.filter(({ table, column }) => tables.has(parents[column] ?? '') && parents[column] !== table);
  return `${[
    '# Tables\n',
    'The tables of schema `fulfilment`, which the ERP reads, and the columns that link them. `npm run golden` makes this page',
    'from the migrated database. Each table and column has a comment there (`\\d+ fulfilment.orders` in psql). How to read the',
    'tables is in [erp.md](erp.md); the outbox is explained in [outbox.md](outbox.md).\n',
    '```mermaid\nerDiagram',
    ...links.map(({ table, column }) => `  ${parents[column]} |o--o{ ${table} : ${column}`),
    '```\n',
    ...[...tables].map(([table, [first]]) => `- **${table}** (key ${renderKey(columns, table)}): ${first?.comment}`),
  ].join('\n')}\n`;
}

const renderKey = (columns: readonly Column[], table: string) =>
  columns
    .filter((column) => column.isKey && column.table === table)
    .map(({ column }) => column)
    .join(', ');
