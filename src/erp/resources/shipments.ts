/**
 * Statements of single resources that fit no general form: order numbers, settings, stock, track-trace, announced
 * returns. Each writes only what differs, and returns what the feed has to tell.
 */

import { type Kysely, sql, type Transaction } from 'kysely';
import { anyClient } from '../connection/any-client.ts';
import { anyId } from '../connection/values.ts';
import type { DB } from '../generated/tables.ts';
import type { Change } from '../mirror/feed.ts';

const asChanges = (rows: readonly { id: number }[]): Change[] =>
  rows.map(({ id }) => ({ entity: 'shipments', id, operation: 'updated' }));

/** Fills order numbers that are missing, at most `limit`; by state, so no order of arrival can leave one out. */
export async function fillOrderNumbers(trx: Transaction<DB>, client: string, limit: number): Promise<Change[]> {
  // What is missing is found once, by itself: joined to the update, it was looked for anew for each of the client's rows
  // where statistics knew of none.
  const { rows } = await sql<{ id: number }>`
    with m as materialized (
      select s.id, o.external_order_number
      from fulfilment.shipments s
      join fulfilment.orders o on o.client = s.client and o.id = s.order_id
      where s.client = ${anyClient(client)} and s.external_order_number is null and s.order_id is not null
        and o.external_order_number is not null
      order by s.id
      limit ${limit}
      -- Locks the orders too: a number that is being changed is waited for, so an old one cannot be filled in after it.
      for no key update of s for share of o
    )
    update fulfilment.shipments s
    set external_order_number = m.external_order_number, changed_at = now()
    from m
    where s.client = ${anyClient(client)} and s.id = m.id
    returning s.id`.execute(trx);
  return asChanges(rows);
}

/** Carries changed order numbers of these orders over to their shipments. */
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
  return asChanges(rows);
}

/** Puts the order numbers of these shipments right where they are others than their orders have. */
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
  return asChanges(rows);
}

/** Of these shipments those with an order: only such are returned by id (interface.md, GET /v3/shipments/:id). */
export async function withOrder(trx: Transaction<DB>, client: string, ids: readonly number[]): Promise<number[]> {
  const rows = await trx
    .selectFrom('fulfilment.shipments')
    .select('id')
    .where('client', '=', anyClient(client))
    .where('id', '=', anyId(ids))
    .where('order_id', 'is not', null)
    .execute();
  return rows.map(({ id }) => id);
}

/** Orders that shipments name but that are not stored here, as far as their next read is due; at most `limit`. */
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
