import { type Kysely, sql } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';
import type { OrderToErase } from './order-scope.ts';

/** An order that a number or an id names. */
export interface ErasableOrder extends OrderToErase {
  readonly client: string;
  /** True if `fulfilment.orders` has it. */
  readonly isStored: boolean;
}

/**
 * Finds the orders with this number, or with this id: stored orders, and orders that only the
 * outbox or the quarantine knows. A number that an order had before it was renamed finds it too,
 * unless another order has that number now: a stored one, or one that a later order.create of the
 * outbox names.
 * @param client null: every client
 */
export async function findErasableOrders(
  db: Kysely<DB>,
  client: string | null,
  name: { readonly number: string } | { readonly id: number },
): Promise<ErasableOrder[]> {
  const [number, id] = 'number' in name ? [name.number, null] : [null, name.id];
  const isNamed =
    id === null
      ? sql`r.reference = ${number}`
      : sql`(t.target_id = ${id} or r.result ->> 'orderId' = ${String(id)})`;

  const { rows } = await sql<ErasableOrder>`
    with stored as (
      select o.client, o.id, coalesce(o.external_order_number, '') as number
      from fulfilment.orders o
      where (o.external_order_number = ${number} or o.id = ${id}::bigint)
        and (${client}::text is null or o.client = ${client})
    ), quarantined as materialized (
      select q.client, q.resource_id as id, coalesce(q.external_order_number, '') as number
      from sync.quarantine q
      where q.stream = 'orders' and (${client}::text is null or q.client = ${client})
        and (q.resource_id = ${id}::bigint
          or (q.resource_id is not null and q.external_order_number = ${number}))
        and not exists (select from stored s where s.client = q.client and s.id = q.resource_id)
    ), pushed as materialized (
      -- A follow-up may come behind rows of another order that got the number.
      select r.client, case when r.kind = 'order_attachment.create' and t.outbox_id is not null
          then 0 else r.id end as row_id, r.kind, r.status, coalesce(t.target_id, case
        when r.result ->> 'orderId' ~ '^[0-9]{1,18}$' then (r.result ->> 'orderId')::bigint end)
          as id,
        coalesce(${number}, case when r.kind = 'order.rename' and r.status = 'done'
          then r.payload ->> 'externalOrderNumber' end, r.reference) as number
      from fulfilment.outbox r
      left join sync.outbox_targets t on t.outbox_id = r.id
      where ${isNamed} and r.family = 'order' and (${client}::text is null or r.client = ${client})
    ), former as (
      select p.client, max(p.row_id) as row_id
      from pushed p
      left join fulfilment.orders o on o.client = p.client and o.id = p.id
      where p.id is not null
      group by p.client
      having bool_or((p.kind = 'order.rename' and p.status = 'done')
        or o.external_order_number <> ${number})
    ), reused as (
      select f.client
      from former f
      where exists (
        select from pushed p
        where p.client = f.client and p.kind in ('order.create', 'order.replace')
            and p.id is null and p.row_id > f.row_id)
    ), found as (
      select client, id, number, 0 as row_id
      from stored
      union all
      select client, id, number, 0
      from quarantined
      union all
      select p.client, p.id, p.number, p.row_id
      from pushed p
      where not exists (select from stored s where s.client = p.client)
        and not exists (select from quarantined q where q.client = p.client
          and coalesce(p.id, q.id) = q.id)
        -- Rows without an id belong to the order that the other rows name, unless a later one began
        -- another order.
        and (p.id is not null) = (exists (
          select from pushed named
          where named.client = p.client and named.id is not null) and not exists (
          select from reused u where u.client = p.client))
    )
    select distinct on (f.client, f.id) f.client, f.id, f.number, exists (
      select from fulfilment.orders o
      where o.client = f.client and o.id = f.id) as "isStored"
    from found f
    order by f.client, f.id, f.row_id desc`.execute(db);
  return rows;
}
