/** What belongs to an order: its numbers, its outbox rows, and its rows in all tables. */

import { sql, type Transaction } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';
import { anyClient } from '../../db/values.ts';
import { isAny, type Place } from './mask-rows.ts';
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

/** An outbox row of an order. */
export interface OrderOutboxRow {
  readonly id: number;
  readonly kind: string;
  readonly reference: string;
  readonly status: string;
  /** True if the service may have carried it out. */
  readonly mayBeCarriedOut: boolean;
}

/**
 * Finds the outbox rows of orders, and locks them until the transaction ends: those with a number
 * of the order, unless they name or mean another order, and the announcements of returns.
 */
export async function lockOrderRows(
  trx: Transaction<DB>,
  scope: OrderScope,
): Promise<OrderOutboxRow[]> {
  const { client, numbers, shipmentIds, returnReferences } = scope;

  const { rows } = await sql<OrderOutboxRow>`
    with named as (
      select *
      from unnest(${numbers.map(({ number }) => number)}::text[],
        ${numbers.map(({ id }) => id)}::bigint[],
        ${numbers.map(({ after }) => after)}::bigint[],
          ${numbers.map(({ before }) => before)}::bigint[])
        as n (number, order_id, after, before)
    ), found as materialized (
      select o.id
      from named n
      join fulfilment.outbox o on o.client = ${anyClient(client)} and o.reference = n.number
        and o.family = 'order'
      left join sync.outbox_targets t on t.outbox_id = o.id
      cross join lateral (values (coalesce(t.target_id::text, o.result ->> 'orderId')))
        as a (order_id)
      where a.order_id = n.order_id::text or (a.order_id is null
        and o.id > coalesce(n.after, 0) and (n.before is null or o.id < n.before))
      union
      select o.id
      from fulfilment.outbox o
      where o.client = ${anyClient(client)} and o.family = 'return'
        and o.reference = any(${returnReferences}::text[])
      union
      select o.id
      from fulfilment.outbox o
      where o.client = ${anyClient(client)} and o.family = 'return'
        and o.payload ->> 'shipmentId' = any(${shipmentIds.map(String)}::text[])
    )
    select o.id, o.kind, o.reference, o.status, o.written_at is not null as "mayBeCarriedOut"
    from fulfilment.outbox o
    where o.id in (select id from found)
    order by o.id
    for update`.execute(trx);
  return rows;
}

/** Lists where each table has rows of the orders. */
export function listPlaces(scope: OrderScope, outboxIds: readonly number[]): readonly Place[] {
  const { client, orderIds, shipmentIds, numbers } = scope;
  // Returns have no place in the outbox: a number that another order took means that one.
  const ownNumbers = numbers.flatMap(({ number, before }) => (before === null ? [number] : []));
  const ofOrder = isAny('order_id', orderIds);
  const ofShipment = isAny('shipment_id', shipmentIds);
  const ofNumber = sql`(t.order_id is null
    and t.external_order_number = any(${ownNumbers}::text[]))`;
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
    ['return_items', ofOrder],
    ['return_items', ofNumber],
    ['return_merchandise_authorization_items', ofReturn],
    ['return_merchandise_authorizations', ofShipment],
    ['parcels', ofShipment],
    ['track_traces', ofShipment],
    ['track_trace_events', ofShipment],
    ['documents', ofOrder],
    ['documents', ofShipment],
    ['documents', isAny('id', outboxIds)],
  ];
}
