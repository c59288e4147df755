/** SQL for shipments and the orders that they name. */

import { type Kysely, sql } from 'kysely';
import { anyClient, anyId } from '../connection/values.ts';
import type { DB } from '../generated/tables.ts';
import type { RunTransaction } from '../runs/stream-transaction.ts';

/**
 * Finds the shipments among these ids that have an order. The service returns only these by id (docs/interface.md, 10.4
 * Operations).
 */
export async function findShipmentsWithOrder(
  { trx, client }: Pick<RunTransaction, 'trx' | 'client'>,
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

/**
 * Requests reads of the orders that shipments name and that are not stored.
 * @param ids the shipments; null: all. Without the first load of orders, nothing is requested for single shipments: its
 *   end requests reads for all of them.
 */
export async function requestMissingOrders(
  { trx, client }: Pick<RunTransaction, 'trx' | 'client'>,
  ids: readonly number[] | null,
): Promise<void> {
  if (ids?.length === 0) return;
  const isLoaded = sql`exists (
        select from sync.cursors c
        where c.client = ${anyClient(client)} and c.stream = 'orders' and c.pass = 'placed'
          and c.completed_at is not null)`;
  await sql`
    insert into sync.rereads (client, stream, id, next_try_at, last_reason)
    select distinct s.client, 'orders', s.order_id, now(), 'a shipment names it'
    from fulfilment.shipments s
    where s.client = ${anyClient(client)} and s.order_id is not null
      and ${ids === null ? sql`true` : sql`s.id = any(${ids}::bigint[]) and ${isLoaded}`}
      -- Looks up one key at a time: a join could read the orders of all clients.
      and (select o.read_no from fulfilment.orders o where o.client = ${client} and o.id = s.order_id) is null
    on conflict do nothing`.execute(trx);
}

/** Finds the orders that shipments name and that are not stored, if their next read is due, the longest waiting first. */
export async function findMissingOrders(db: Kysely<DB>, client: string): Promise<number[]> {
  const { rows } = await sql<{ id: number }>`
    select r.id
    from sync.rereads r
    where r.client = ${anyClient(client)} and r.stream = 'orders' and r.next_try_at <= now()
      and exists (select from fulfilment.shipments s where s.client = r.client and s.order_id = r.id)
      and not exists (select from fulfilment.orders o where o.client = r.client and o.id = r.id)
    order by r.next_try_at, r.id`.execute(db);
  return rows.map(({ id }) => id);
}
