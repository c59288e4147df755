import { sql, type Transaction } from 'kysely';
import { anyClient } from '../connection/any-client.ts';
import type { DB } from '../generated/tables.ts';

/** An order whose personal data is erased. The id is null if the service never had it, as far as is known here. */
export interface OrderToErase {
  readonly id: number | null;
  readonly number: string;
}

/** The ids of everything that belongs to a number of orders of one client. */
export interface OrderScope {
  readonly client: string;
  /** Numbers of the orders, also former ones, each with the id of its order. */
  readonly orders: readonly OrderToErase[];
  readonly orderIds: readonly number[];
  readonly shipmentIds: readonly number[];
  readonly returnItemIds: readonly number[];
  readonly authorizationIds: readonly number[];
  /** The external references of the announced returns, which are the references of their outbox rows. */
  readonly returnReferences: readonly string[];
}

/** Collects what belongs to these orders. */
export async function readOrderScope(
  trx: Transaction<DB>,
  client: string,
  given: readonly OrderToErase[],
): Promise<OrderScope> {
  const orders = await readNumbers(trx, client, given);
  const orderIds = [...new Set(orders.flatMap(({ id }) => (id === null ? [] : [id])))];
  const numbers = [...new Set(given.map(({ number }) => number))];
  const { rows } = await sql<{ part: 'shipment' | 'item' | 'authorization'; id: number; reference: string | null }>`
    with shipments as materialized (
      select s.id
      from fulfilment.shipments s
      where s.client = ${anyClient(client)} and s.order_id = any(${orderIds}::bigint[])
    )
    select 'shipment' as part, id, null as reference
    from shipments
    union all
    select 'item', r.id, null
    from fulfilment.return_items r
    where r.client = ${anyClient(client)} and r.order_id = any(${orderIds}::bigint[])
    union all
    select 'item', r.id, null
    from fulfilment.return_items r
    where r.client = ${anyClient(client)} and r.order_id is null and r.external_order_number = any(${numbers}::text[])
    union all
    select 'authorization', a.id, a.external_reference
    from fulfilment.return_merchandise_authorizations a
    where a.client = ${anyClient(client)} and a.shipment_id in (
      select id from shipments)`.execute(trx);
  const pick = (part: 'shipment' | 'item' | 'authorization') => rows.filter((row) => row.part === part);
  const ids = (part: 'shipment' | 'item' | 'authorization') => pick(part).map(({ id }) => id);
  return {
    client,
    orders,
    orderIds,
    shipmentIds: ids('shipment'),
    returnItemIds: ids('item'),
    authorizationIds: ids('authorization'),
    returnReferences: pick('authorization').flatMap(({ reference }) => (reference === null ? [] : [reference])),
  };
}

/** Returns the numbers of the orders: those given, those stored now, and those that renames gave or took. */
async function readNumbers(
  trx: Transaction<DB>,
  client: string,
  given: readonly OrderToErase[],
): Promise<OrderToErase[]> {
  const ids = given.flatMap(({ id }) => (id === null ? [] : [id]));
  const { rows } = await sql<{ id: number; number: string }>`
    select o.id, o.external_order_number as number
    from fulfilment.orders o
    where o.client = ${anyClient(client)} and o.id = any(${ids}::bigint[]) and o.external_order_number is not null
    union
    select t.target_id, n.number
    from sync.outbox_targets t
    join fulfilment.outbox r on r.id = t.outbox_id
    cross join lateral (values (r.reference), (r.payload ->> 'externalOrderNumber')) as n (number)
    where t.target_id = any(${ids}::bigint[]) and r.client = ${anyClient(client)} and n.number is not null`.execute(
    trx,
  );
  const all = [...given, ...rows];
  return [...new Map(all.map((order) => [JSON.stringify([order.id, order.number]), order])).values()];
}
