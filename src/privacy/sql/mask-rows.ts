import { type RawBuilder, sql, type Transaction } from 'kysely';
import { isObject, parseExact } from '../../core/json.ts';
import type { DB } from '../../db/generated/tables.ts';
import { anyClient } from '../../db/values.ts';
import {
  findColumnType,
  maskRow,
  type PersonalTable,
  personalColumns,
} from '../../pull/sql/erasures.ts';
import { type Change, listChangedColumns, toChange, type WrittenRow } from '../../pull/sql/feed.ts';
import { columnRefs, tableRef } from '../../pull/sql/mirror-tables.ts';
import type { OrderScope } from './order-scope.ts';

/** The client, and the ids by which its rows are found. */
type RowScope = Omit<OrderScope, 'numbers' | 'returnReferences'>;

/** A table whose rows are masked, and how its rows are found and named. */
interface MaskedTable {
  readonly name: PersonalTable;
  /** Key columns beside the client, with their types. They also name the row in the feed. */
  readonly key: Readonly<Record<string, string>>;
  /** Columns of the order, shipment or return that a row belongs to, each with its ids. */
  readonly find: (scope: RowScope) => Readonly<Record<string, readonly number[]>>;
  /** False for tables that the feed does not name. */
  readonly inFeed?: false;
  /** Column with the time of the change, `changed_at` by default; null if there is none. */
  readonly stamp?: 'changed_at' | 'erased_at' | null;
}

const byId = { id: 'bigint' } as const;
const byPackage = { shipment_id: 'bigint', package_number: 'text' } as const;

const documents: MaskedTable = {
  name: 'documents',
  key: byId,
  find: ({ orderIds, shipmentIds }) => ({ order_id: orderIds, shipment_id: shipmentIds }),
  stamp: 'erased_at',
};

const tables: readonly MaskedTable[] = [
  { name: 'orders', key: byId, find: ({ orderIds }) => ({ id: orderIds }) },
  { name: 'order_items', key: byId, find: ({ orderIds }) => ({ order_id: orderIds }) },
  {
    name: 'order_addresses',
    key: { order_id: 'bigint', role: 'text' },
    find: ({ orderIds }) => ({ order_id: orderIds }),
  },
  { name: 'shipments', key: byId, find: ({ shipmentIds }) => ({ id: shipmentIds }) },
  { name: 'shipment_items', key: byId, find: ({ shipmentIds }) => ({ shipment_id: shipmentIds }) },
  { name: 'return_items', key: byId, find: ({ returnItemIds }) => ({ id: returnItemIds }) },
  {
    name: 'return_merchandise_authorizations',
    key: byId,
    find: ({ authorizationIds }) => ({ id: authorizationIds }),
  },
  {
    name: 'return_merchandise_authorization_items',
    key: byId,
    find: ({ authorizationIds }) => ({ return_merchandise_authorization_id: authorizationIds }),
  },
  { name: 'parcels', key: byPackage, find: ({ shipmentIds }) => ({ shipment_id: shipmentIds }) },
  {
    name: 'track_traces',
    key: byPackage,
    find: ({ shipmentIds }) => ({ shipment_id: shipmentIds }),
  },
  {
    name: 'track_trace_events',
    key: byId,
    find: ({ shipmentIds }) => ({ shipment_id: shipmentIds }),
    inFeed: false,
    stamp: null,
  },
  documents,
];

/**
 * Masks the stored rows of orders. Rows that hold no personal data are not written.
 * @returns the number of masked rows by table, and their entries for the feed
 */
export async function maskOrderRows(trx: Transaction<DB>, scope: RowScope) {
  const counts: Record<string, number> = {};
  const changes: Change[] = [];
  for (const table of tables) {
    for (const [column, ids] of Object.entries(table.find(scope))) {
      if (ids.length === 0) continue;
      const masked = await maskTable(
        trx,
        scope.client,
        table,
        sql`${sql.ref(`t.${column}`)} = any(${ids}::bigint[])`,
      );
      if (masked.length > 0) counts[table.name] = (counts[table.name] ?? 0) + masked.length;
      if (table.inFeed !== false) for (const change of masked) changes.push(change);
    }
  }
  return { counts, changes };
}

/** Masks documents by their ids, which are those of their outbox rows. */
export function maskDocuments(
  trx: Transaction<DB>,
  client: string,
  outboxIds: readonly number[],
): Promise<Change[]> {
  return maskTable(trx, client, documents, sql`t.id = any(${outboxIds}::bigint[])`);
}

/** Results longer than this hold a document; nothing of them is kept. */
const maxResultLength = 100_000;

async function maskTable(
  trx: Transaction<DB>,
  client: string,
  { name, key, stamp = 'changed_at' }: MaskedTable,
  where: RawBuilder<unknown>,
): Promise<Change[]> {
  const columns = Object.keys(personalColumns[name]);
  const read = columns.map((column) =>
    column === 'result'
      ? sql`case
          when length(t.result::text) > ${maxResultLength} then '{}'::jsonb
          else t.result end as result`
      : sql.ref(`t.${column}`),
  );
  const { rows: stored } = await sql<{ row: string }>`
    select to_jsonb(p)::text as row
    from (
      select ${columnRefs(Object.keys(key), 't')}, ${sql.join(read)}
      from ${tableRef(name)} t
      where t.client = ${anyClient(client)} and ${where}
      for update
    ) p`.execute(trx);
  if (stored.length === 0) return [];
  const masked = stored.map(({ row }) => {
    const parsed = parseExact(row);
    return isObject(parsed) ? maskRow(name, parsed) : {};
  });
  const types = [
    ...Object.entries(key),
    ...columns.map((column) => [column, findColumnType(column)] as const),
  ];
  const keys = Object.keys(key).map(
    (column) => sql`${sql.ref(`t.${column}`)} = ${sql.ref(`i.${column}`)}`,
  );
  const assignments = columns.map((column) => sql`${sql.ref(column)} = ${sql.ref(`i.${column}`)}`);
  if (stamp !== null) assignments.push(sql`${sql.ref(stamp)} = now()`);
  const unmarked = stamp === 'erased_at' ? sql`t.erased_at is null` : sql`false`;
  const feedKey =
    Object.keys(key).length === 1 ? sql`null::text` : sql.join(keyTexts(key), sql` || ':' || `);
  const feedId = 'id' in key || name === 'order_addresses' ? sql`t.id` : sql`null::bigint`;
  const { rows } = await sql<WrittenRow>`
    update ${tableRef(name)} t
    set ${sql.join(assignments)}
    from jsonb_to_recordset(${JSON.stringify(masked)}::jsonb)
      as i (${sql.join(types.map(([column, type]) => sql`${sql.ref(column)} ${sql.raw(type)}`))})
    where t.client = ${anyClient(client)} and ${sql.join(keys, sql` and `)}
      and (${unmarked} or (${columnRefs(columns, 't')}) is distinct
        from (${columnRefs(columns, 'i')}))
    returning ${feedId} as id, ${feedKey} as key, ${listChangedColumns(
      tableRef(name),
      Object.keys(key),
      stamp === 'erased_at' ? [...columns, stamp] : columns,
    )} as "changedColumns"`.execute(trx);
  return rows.map((row) => toChange(name, row));
}

const keyTexts = (key: MaskedTable['key']) =>
  Object.keys(key).map((column) => sql`${sql.ref(`t.${column}`)}::text`);
