import { type Kysely, sql } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';
import { anyText } from '../../db/values.ts';
import { newestOrders } from './order-list.ts';

/** An order that a search found. */
export interface OrderMatch {
  readonly client: string;
  /** The order number: the present one, or the reference of an outbox row. */
  readonly number: string;
  /**
   * What was searched for: order number, order id, shipment id, parcel code, package number, return
   * reference, e-mail address or article.
   */
  readonly foundBy: readonly string[];
}

/**
 * The number of orders that a search returns, and whether it may use personal data: the e-mail
 * address.
 */
export interface OrderSearch {
  readonly limit: number;
  readonly byEmail: boolean;
}

/**
 * Finds orders by one text: an order number, the id of an order or shipment, a tracking code, the
 * number of a package, the reference of an announced return, or an e-mail address. Each way uses an
 * index. If nothing is found, the text is taken for an article, and the newest orders are searched.
 * Outbox rows are found only for clients that a worker has had.
 */
export async function searchOrders(
  db: Kysely<DB>,
  text: string,
  { limit, byEmail }: OrderSearch,
): Promise<OrderMatch[]> {
  const email = byEmail && text.includes('@') ? text : null;

  // Ids of the service are safe integers. A longer number is none.
  const id = /^\d{1,16}$/.test(text) && Number.isSafeInteger(Number(text)) ? Number(text) : null;
  // Each form is found by the index. Stored orders are found in any case, other numbers and codes
  // in these.
  const forms = anyText([...new Set([text, text.toUpperCase(), text.toLowerCase()])]);

  const { rows } = await sql<OrderMatch>`
    with found as (
      (select o.client, o.reference as number, 'order number' as by
       from sync.clients c
       cross join lateral (
         select o.client, o.reference from fulfilment.outbox o
         where o.client = c.client and o.reference = ${forms} and o.family = 'order'
           order by o.id desc limit 1
       ) o)
      union all
      (select r.client, r.external_order_number, 'order number'
       from fulfilment.orders r
       where lower(r.external_order_number) = lower(${text})
       limit ${limit})
      union all
      select r.client, r.external_order_number, 'order id'
      from sync.clients c
      join fulfilment.orders r on r.client = c.client and r.id = ${id}::bigint
      union all
      select s.client, s.external_order_number, 'shipment id'
      from sync.clients c
      join fulfilment.shipment_overview s on s.client = c.client and s.id = ${id}::bigint
      union all
      (select s.client, s.external_order_number, 'parcel code'
       from fulfilment.parcels p
       join fulfilment.shipment_overview s on s.client = p.client and s.id = p.shipment_id
       where p.track_and_trace_code = ${forms}
       limit ${limit})
      union all
      (select s.client, s.external_order_number, 'return reference'
       from fulfilment.return_merchandise_authorizations a
       join fulfilment.shipment_overview s on s.client = a.client and s.id = a.shipment_id
       where a.external_reference = ${forms}
       limit ${limit})
      union all
      (select s.client, s.external_order_number, 'package number'
       from fulfilment.parcels p
       join fulfilment.shipment_overview s on s.client = p.client and s.id = p.shipment_id
       where p.package_number = ${forms} and p.package_number <> ''
       limit ${limit})
      union all
      (select r.client, r.external_order_number, 'e-mail address'
       from fulfilment.orders r
       where lower(r.email) = lower(${email}::text)
       order by r.ordered_on desc nulls last, r.id desc
       limit ${limit})
    )
    select f.client, f.number, array_agg(distinct f.by order by f.by) as "foundBy"
    from found f
    where f.number is not null
    group by f.client, f.number
    order by f.client, f.number
    limit ${limit}`.execute(db);

  return rows.length > 0 ? rows : searchArticle(db, forms, limit);
}

/** Finds the newest orders with an article, among those that lists search. */
async function searchArticle(
  db: Kysely<DB>,
  forms: ReturnType<typeof anyText>,
  limit: number,
): Promise<OrderMatch[]> {
  const { rows } = await sql<OrderMatch>`
    with ${newestOrders(null)}
    select n.client, o.external_order_number as number, array['article'] as "foundBy"
    from newest n
    join fulfilment.orders o on o.client = n.client and o.id = n.id
    where o.external_order_number is not null and exists (
      select from fulfilment.order_items i
      where i.client = n.client and i.order_id = n.id and i.sku = ${forms})
    order by n.ordered_on desc, n.id desc
    limit ${limit}`.execute(db);

  return rows;
}
