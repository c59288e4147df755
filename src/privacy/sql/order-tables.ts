/** The tables of an order, and the one walk over them that masks their personal columns. */

import { type RawBuilder, sql, type Transaction } from 'kysely';
import { isObject, parseExact } from '../../core/json.ts';
import type { DB } from '../../db/generated/tables.ts';
import { anyClient } from '../../db/values.ts';
import { maskRow, type PersonalTable, personalColumns } from '../../pull/sql/erasures.ts';
import { type Change, listChangedColumns, toChange, type WrittenRow } from '../../pull/sql/feed.ts';
import { columnRefs, tableRef } from '../../pull/sql/mirror-tables.ts';
import { findColumnType } from '../personal-columns.ts';
import { type OrderNumber, type OrderToErase, readNumbers } from './order-numbers.ts';

/** What the rows of some orders of one client are found by. */
export interface OrderScope {
  readonly client: string;
  readonly numbers: readonly OrderNumber[];
  readonly orderIds: readonly number[];
  readonly shipmentIds: readonly number[];
  /** The references of announced returns, which are those of their outbox rows. */
  readonly returnReferences: readonly string[];
}

/** Reads what belongs to these orders. */
export async function readOrderScope(
  trx: Transaction<DB>,
  client: string,
  given: readonly OrderToErase[],
): Promise<OrderScope> {
  const orderIds = [...new Set(given.flatMap(({ id }) => (id === null ? [] : [id])))];

  const { rows } = await sql<{ id: number; returns: string[] }>`
    select s.id, array(
      select a.external_reference
      from fulfilment.return_merchandise_authorizations a
      where a.client = ${anyClient(client)} and a.shipment_id = s.id
        and a.external_reference is not null) as returns
    from fulfilment.shipments s
    where s.client = ${anyClient(client)} and s.order_id = any(${orderIds}::bigint[])`.execute(trx);

  return {
    client,
    numbers: await readNumbers(trx, client, given),
    orderIds,
    shipmentIds: rows.map(({ id }) => id),
    returnReferences: rows.flatMap(({ returns }) => returns),
  };
}

/** SQL: true for some rows of a table t. */
type Where = RawBuilder<unknown>;

const isAny = (column: string, ids: readonly number[]): Where =>
  sql`${sql.ref(`t.${column}`)} = any(${ids}::bigint[])`;

/** Key columns of a table beside the client, with their types. They also name a row in the feed. */
const otherKeys: { readonly [Table in PersonalTable]?: Readonly<Record<string, string>> } = {
  order_addresses: { order_id: 'bigint', role: 'text' },
  parcels: { shipment_id: 'bigint', package_number: 'text' },
  track_traces: { shipment_id: 'bigint', package_number: 'text' },
};

/** Lists where each table has rows of the orders. */
function listTables(scope: OrderScope): readonly (readonly [PersonalTable, ...Where[]])[] {
  const { client, orderIds, shipmentIds, numbers } = scope;
  // Returns have no place in the outbox: a number that another order took means that one.
  const ownNumbers = numbers.flatMap(({ number, before }) => (before === null ? [number] : []));
  const ofOrder = isAny('order_id', orderIds);
  const ofShipment = isAny('shipment_id', shipmentIds);
  const ofReturn = sql`t.return_merchandise_authorization_id in (
    select a.id
    from fulfilment.return_merchandise_authorizations a
    where a.client = ${anyClient(client)} and a.shipment_id = any(${shipmentIds}::bigint[]))`;

  return [
    ['orders', isAny('id', orderIds)],
    ['order_items', ofOrder],
    ['order_addresses', ofOrder],
    ['shipments', isAny('id', shipmentIds)],
    ['shipment_items', ofShipment],
    [
      'return_items',
      ofOrder,
      sql`t.order_id is null and t.external_order_number = any(${ownNumbers}::text[])`,
    ],
    ['return_merchandise_authorization_items', ofReturn],
    ['return_merchandise_authorizations', ofShipment],
    ['parcels', ofShipment],
    ['track_traces', ofShipment],
    ['track_trace_events', ofShipment],
    ['documents', ofOrder, ofShipment],
  ];
}

/**
 * Masks the stored rows of orders. Rows that hold no personal data are not written.
 * @returns the number of masked rows by table, and their entries for the feed
 */
export async function maskOrderRows(trx: Transaction<DB>, scope: OrderScope) {
  const counts: Record<string, number> = {};
  const changes: Change[] = [];

  for (const [table, ...places] of listTables(scope))
    for (const where of places) {
      const masked = await maskTable(trx, scope.client, table, where);
      if (masked.length > 0) counts[table] = (counts[table] ?? 0) + masked.length;
      // The feed does not name events of packages.
      if (table !== 'track_trace_events') for (const change of masked) changes.push(change);
    }

  return { counts, changes };
}

/** Masks rows of a table by their ids, and returns their entries for the feed. */
export const maskById = (
  trx: Transaction<DB>,
  client: string,
  table: PersonalTable,
  ids: readonly number[],
): Promise<Change[]> => maskTable(trx, client, table, isAny('id', ids));

/** Masks the items of announced returns, and returns their entries for the feed. */
export const maskReturnItems = (
  trx: Transaction<DB>,
  client: string,
  returnIds: readonly number[],
): Promise<Change[]> =>
  maskTable(
    trx,
    client,
    'return_merchandise_authorization_items',
    isAny('return_merchandise_authorization_id', returnIds),
  );

/** Results longer than this hold a document; nothing of them is kept. */
const maxResultLength = 100_000;

/** Reads rows without writing them, and locks them until the transaction ends. */
async function lockRows(trx: Transaction<DB>, client: string, table: PersonalTable, where: Where) {
  const key = Object.keys(otherKeys[table] ?? { id: 'bigint' });
  const read = Object.keys(personalColumns[table]).map((column) =>
    column === 'result'
      ? sql`case
          when length(t.result::text) > ${maxResultLength} then '{}'::jsonb
          else t.result end as result`
      : sql.ref(`t.${column}`),
  );

  const { rows } = await sql<{ row: string }>`
    select to_jsonb(p)::text as row
    from (
      select ${columnRefs(key, 't')}, ${sql.join(read)}
      from ${tableRef(table)} t
      where t.client = ${anyClient(client)} and ${where}
      for update
    ) p`.execute(trx);
  return rows.map(({ row }) => parseExact(row)).filter(isObject);
}

/** Returns the column with the time of the change; null if a table has none. */
function findStamp(table: PersonalTable): string | null {
  if (table === 'documents') return 'erased_at';
  return table === 'track_trace_events' ? null : 'changed_at';
}

async function maskTable(
  trx: Transaction<DB>,
  client: string,
  table: PersonalTable,
  where: Where,
): Promise<Change[]> {
  const stored = await lockRows(trx, client, table, where);
  if (stored.length === 0) return [];

  const masked = stored.map((row) => maskRow(table, row));
  const key = otherKeys[table] ?? { id: 'bigint' };
  const keyNames = Object.keys(key);
  const columns = Object.keys(personalColumns[table]);
  const stamp = findStamp(table);

  const types = [
    ...Object.entries(key),
    ...columns.map((column) => [column, findColumnType(column)] as const),
  ];
  const members = types.map(([column, type]) => sql`${sql.ref(column)} ${sql.raw(type)}`);
  const isSameRow = keyNames.map(
    (column) => sql`${sql.ref(`t.${column}`)} = ${sql.ref(`i.${column}`)}`,
  );
  const assignments = columns.map((column) => sql`${sql.ref(column)} = ${sql.ref(`i.${column}`)}`);
  if (stamp !== null) assignments.push(sql`${sql.ref(stamp)} = now()`);

  const isUnmarked = stamp === 'erased_at' ? sql`t.erased_at is null` : sql`false`;
  const keyTexts = keyNames.map((column) => sql`${sql.ref(`t.${column}`)}::text`);
  const feedKey = keyNames.length === 1 ? sql`null::text` : sql.join(keyTexts, sql` || ':' || `);
  const hasId = 'id' in key || table === 'order_addresses';
  const feedId = hasId ? sql`t.id` : sql`null::bigint`;
  const compared = stamp === 'erased_at' ? [...columns, stamp] : columns;

  const { rows } = await sql<WrittenRow>`
    update ${tableRef(table)} t
    set ${sql.join(assignments)}
    from jsonb_to_recordset(${JSON.stringify(masked)}::jsonb) as i (${sql.join(members)})
    where t.client = ${anyClient(client)} and ${sql.join(isSameRow, sql` and `)}
      and (${isUnmarked} or (${columnRefs(columns, 't')}) is distinct
        from (${columnRefs(columns, 'i')}))
    returning ${feedId} as id, ${feedKey} as key,
      ${listChangedColumns(tableRef(table), keyNames, compared)} as "changedColumns"`.execute(trx);
  return rows.map((row) => toChange(table, row));
}
