import { type RawBuilder, sql, type Transaction } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';
import { anyClient, anyId } from '../../db/values.ts';
import type { Change } from '../../pull/sql/feed.ts';

/** A table whose rows go with their order, and SQL of the key that the feed names them by. */
interface OrderTable {
  readonly name: string;
  readonly where: RawBuilder<unknown>;
  readonly key?: RawBuilder<unknown>;
}

/** Lists the tables with rows of orders, children before their parents. */
function listTables(client: string, orders: readonly number[]): OrderTable[] {
  const ofOrders = sql`t.order_id = ${anyId(orders)}`;
  const ofShipments = sql`t.shipment_id in (
    select s.id from fulfilment.shipments s
    where s.client = ${anyClient(client)} and s.order_id = ${anyId(orders)})`;
  const ofPackages = { where: ofShipments, key: sql`t.shipment_id || ':' || t.package_number` };
  const ofAnnouncements = sql`t.return_merchandise_authorization_id in (
    select a.id from fulfilment.return_merchandise_authorizations a
    join fulfilment.shipments s on s.client = a.client and s.id = a.shipment_id
    where a.client = ${anyClient(client)} and s.order_id = ${anyId(orders)})`;

  return [
    { name: 'return_merchandise_authorization_items', where: ofAnnouncements },
    { name: 'return_merchandise_authorizations', where: ofShipments },
    { name: 'return_items', where: ofOrders },
    { name: 'parcels', ...ofPackages },
    { name: 'track_traces', ...ofPackages },
    { name: 'shipment_items', where: ofShipments },
    { name: 'shipments', where: ofOrders },
    { name: 'order_items', where: ofOrders },
    { name: 'order_addresses', where: ofOrders, key: sql`t.order_id || ':' || t.role` },
    { name: 'orders', where: sql`t.id = ${anyId(orders)}` },
  ];
}

/** Deletes the mirror of orders, with their shipments and returns. Returns what the feed gets. */
export async function deleteOrders(
  trx: Transaction<DB>,
  client: string,
  orders: readonly number[],
): Promise<Change[]> {
  const changes: Change[] = [];

  for (const { name, where, key } of listTables(client, orders)) {
    const named = key === undefined ? sql`t.id, null as key` : sql`null as id, ${key} as key`;
    const deleted = sql<{ id: number | null; key: string | null }>`
      delete from ${sql.table(`fulfilment.${name}`)} t
      where t.client = ${anyClient(client)} and ${where}
      returning ${named}`;

    for (const row of (await deleted.execute(trx)).rows)
      changes.push({ entity: name, ...row, operation: 'removed' });
  }
  return changes;
}
