import { sql, type Transaction } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';
import { anyClient } from '../../db/values.ts';
import { type OrderNumber, type OrderToErase, readNumbers } from './erased-numbers.ts';

/** The ids of everything that belongs to a number of orders of one client. */
export interface OrderScope {
  readonly client: string;
  readonly numbers: readonly OrderNumber[];
  readonly orderIds: readonly number[];
  readonly shipmentIds: readonly number[];
  readonly returnItemIds: readonly number[];
  readonly authorizationIds: readonly number[];
  /**
   * The external references of the announced returns, which are the references of their outbox
   * rows.
   */
  readonly returnReferences: readonly string[];
}

type Part = 'shipment' | 'item' | 'authorization';

/** Collects what belongs to these orders. */
export async function readOrderScope(
  trx: Transaction<DB>,
  client: string,
  given: readonly OrderToErase[],
): Promise<OrderScope> {
  const numbers = await readNumbers(trx, client, given);
  const orderIds = [...new Set(given.flatMap(({ id }) => (id === null ? [] : [id])))];
  // Returns have no place in the outbox: a number that another order took means that one.
  const ownNumbers = [
    ...new Set(numbers.flatMap(({ number, before }) => (before === null ? [number] : []))),
  ];
  const { rows } = await sql<{ part: Part; id: number; reference: string | null }>`
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
    where r.client = ${anyClient(client)} and r.order_id is null
      and r.external_order_number = any(${ownNumbers}::text[])
    union all
    select 'authorization', a.id, a.external_reference
    from fulfilment.return_merchandise_authorizations a
    where a.client = ${anyClient(client)} and a.shipment_id in (
      select id from shipments)`.execute(trx);
  const ids = (part: Part) => rows.flatMap((row) => (row.part === part ? [row.id] : []));
  return {
    client,
    numbers,
    orderIds,
    shipmentIds: ids('shipment'),
    returnItemIds: ids('item'),
    authorizationIds: ids('authorization'),
    returnReferences: rows.flatMap(({ reference }) => (reference === null ? [] : [reference])),
  };
}
