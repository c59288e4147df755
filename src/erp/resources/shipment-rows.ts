/**
 * SQL for single resources that the general mirror code does not cover: order numbers, service lists, stock, track-trace and
 * return authorizations. Each statement writes only what differs, and returns the changes for the feed.
 */

import { type Kysely, sql, type Transaction } from 'kysely';
import { anyClient } from '../connection/any-client.ts';
import { anyId } from '../connection/values.ts';
import type { DB } from '../generated/tables.ts';
import type { Change } from '../mirror/feed.ts';

const toChanges = (rows: readonly { id: number }[]): Change[] =>
  rows.map(({ id }) => ({ entity: 'shipments', id, operation: 'updated' }));

/** Returns true if a shipment lacks its order number, and the order is stored. */
export async function lackOrderNumbers(db: Kysely<DB>, client: string): Promise<boolean> {
  const { rows } = await sql`
    select
    from fulfilment.shipments s
    join fulfilment.orders o on o.client = s.client and o.id = s.order_id
    where s.client = ${anyClient(client)} and s.external_order_number is null and s.order_id is not null
      and o.external_order_number is not null
    limit 1`.execute(db);
  return rows.length > 0;
}

/**
 * Fills missing order numbers of shipments, at most `limit`. It looks at the stored rows, so it does not matter whether
 * the order or the shipment was stored first.
 */
export async function fillOrderNumbers(trx: Transaction<DB>, client: string, limit: number): Promise<Change[]> {
  // The CTE finds the missing numbers once. If they were joined to the update directly and the statistics knew of no
  // such rows, Postgres would search them again for each row of the client.
  const { rows } = await sql<{ id: number }>`
    with m as materialized (
      select s.id, o.external_order_number
      from fulfilment.shipments s
      join fulfilment.orders o on o.client = s.client and o.id = s.order_id
      where s.client = ${anyClient(client)} and s.external_order_number is null and s.order_id is not null
        and o.external_order_number is not null
      order by s.id
      limit ${limit}
      -- Locks the orders too. It waits for a change of an order number, so it cannot fill in the old number afterwards.
      for no key update of s for share of o
    )
    update fulfilment.shipments s
    set external_order_number = m.external_order_number, changed_at = now()
    from m
    where s.client = ${anyClient(client)} and s.id = m.id
    returning s.id`.execute(trx);
  return toChanges(rows);
}

/** Copies the order numbers of these orders to their shipments, where they differ. */
export async function renameOrderNumbers(
  trx: Transaction<DB>,
  client: string,
  orderIds: readonly number[],
): Promise<Change[]> {
  if (orderIds.length === 0) return [];
  const { rows } = await sql<{ id: number }>`
    update fulfilment.shipments s
    set external_order_number = o.external_order_number, changed_at = now()
    from fulfilment.orders o
    where o.client = ${anyClient(client)} and o.id = any(${orderIds}::bigint[]) and s.client = o.client
      and s.order_id = o.id
      and s.external_order_number is not null and s.external_order_number is distinct from o.external_order_number
    returning s.id`.execute(trx);
  return toChanges(rows);
}

/** Corrects the order numbers of these shipments that differ from those of their orders. */
export async function healOrderNumbers(
  trx: Transaction<DB>,
  client: string,
  shipmentIds: readonly number[],
): Promise<Change[]> {
  if (shipmentIds.length === 0) return [];
  const { rows } = await sql<{ id: number }>`
    update fulfilment.shipments s
    set external_order_number = o.external_order_number, changed_at = now()
    from fulfilment.orders o
    where s.client = ${anyClient(client)} and s.id = any(${shipmentIds}::bigint[]) and o.client = s.client
      and o.id = s.order_id
      and s.external_order_number is not null and s.external_order_number is distinct from o.external_order_number
    returning s.id`.execute(trx);
  return toChanges(rows);
}

/**
 * Finds the shipments among these ids that have an order. The service returns only these by id (docs/interface.md, 10.4
 * Operations).
 */
export async function findShipmentsWithOrder(
  trx: Transaction<DB>,
  client: string,
  ids: readonly number[],
): Promise<number[]> {
  const rows = await trx
    .selectFrom('fulfilment.shipments')
    .select('id')
    .where('client', '=', anyClient(client))
    .where('id', '=', anyId(ids))
    .where('order_id', 'is not', null)
    .execute();
  return rows.map(({ id }) => id);
}

/** Finds orders that shipments name but that are not stored here, if their next read is due; at most `limit`. */
export async function findMissingOrders(db: Kysely<DB>, client: string, limit: number | null): Promise<number[]> {
  const { rows } = await sql<{ id: number }>`
    select s.order_id as id
    from fulfilment.shipments s
    left join sync.rereads r on r.client = s.client and r.stream = 'orders' and r.id = s.order_id
    where s.client = ${anyClient(client)} and s.external_order_number is null and s.order_id is not null
      and not exists (select from fulfilment.orders o where o.client = s.client and o.id = s.order_id)
      and (r.next_try_at is null or r.next_try_at <= now())
    group by s.order_id
    order by min(r.next_try_at) nulls first, s.order_id
    limit ${limit}`.execute(db);
  return rows.map(({ id }) => id);
}
