import { type Kysely, sql } from 'kysely';
import type { DB } from '../generated/tables.ts';
import type { OrderToErase } from './order-scope.ts';

/** An order that a number or an id names. */
export interface FoundOrder extends OrderToErase {
  readonly client: string;
  /** True if `fulfilment.orders` has it. */
  readonly isStored: boolean;
}

/**
 * Finds the orders with this number, or with this id: stored orders, and orders that only the outbox knows. A number
 * that an order had before it was renamed finds it too, unless a stored order has that number now.
 * @param client null: every client
 */
export async function findOrders(
  db: Kysely<DB>,
  client: string | null,
  name: { readonly number: string } | { readonly id: number },
): Promise<FoundOrder[]> {
  const [number, id] = 'number' in name ? [name.number, null] : [null, name.id];
  const { rows } = await sql<FoundOrder>`
    with stored as (
      select o.client, o.id, coalesce(o.external_order_number, '') as number
      from fulfilment.orders o
      where (o.external_order_number = ${number} or o.id = ${id}::bigint)
        and (${client}::text is null or o.client = ${client})
    ), pushed as (
      select distinct r.client, r.reference as number, coalesce(t.target_id, case
        when r.result ->> 'orderId' ~ '^[0-9]{1,15}$' then (r.result ->> 'orderId')::bigint end) as id
      from fulfilment.outbox r
      left join sync.outbox_targets t on t.outbox_id = r.id
      where r.reference = ${number} and r.family = 'order' and (${client}::text is null or r.client = ${client})
    )
    select client, id, number, true as "isStored"
    from stored
    union
    select p.client, p.id, p.number, exists (
      select from fulfilment.orders o
      where o.client = p.client and o.id = p.id)
    from pushed p
    where not exists (select from stored s where s.client = p.client)
      -- Rows without an id belong to the order that the other rows name.
      and (p.id is not null or not exists (
        select from pushed named
        where named.client = p.client and named.id is not null))
    order by client, id`.execute(db);
  return rows;
}
