import { type Kysely, type RawBuilder, sql } from 'kysely';
import { anyClient } from '../connection/values.ts';
import type { DB } from '../generated/tables.ts';

/** The part of an order that an event belongs to. */
export type EventSource = 'outbox' | 'order' | 'shipment' | 'parcel' | 'return' | 'document';

/** Something that happened to an order. Names, addresses and payloads are not read. */
export interface OrderEvent {
  readonly at: Date;
  /** True if the service tells only the day. */
  readonly isDay: boolean;
  readonly source: EventSource;
  /** Number of the outbox row, order, shipment or return; for a parcel the number of its shipment. */
  readonly id: number;
  /** What happened, such as inserted, sent, stored, shipped, status or unlisted. */
  readonly what: string;
  /** The kind of a row, the outcome of an attempt, or a status as the service tells it; null if there is none. */
  readonly detail: string | null;
  /** Outbox: the reference of the row. Parcel: the number of the package. */
  readonly name: string | null;
  /** Why an attempt failed; null if it did not. */
  readonly error: string | null;
}

/** Maximum numbers of rows of each part that are read. The latest count. */
const maxRows = 100;
const maxAttempts = 30;
const maxPackages = 200;

/** SQL: the ids of the orders that have or had the number, and all numbers that they had. */
const findOrder = (client: RawBuilder<string>, number: string) => sql`
  named as materialized (
    (select r.id
     from fulfilment.orders r
     where r.external_order_number = ${number} and r.client = ${client}
     limit ${maxRows})
    union
    (select t.target_id
     from fulfilment.outbox o
     join sync.outbox_targets t on t.outbox_id = o.id
     where o.client = ${client} and o.reference = ${number} and o.kind = 'order.rename'
     limit ${maxRows})
  ), numbers as materialized (
    select ${number}::text as number
    union
    select o.reference
    from named n
    join sync.outbox_targets t on t.target_id = n.id
    join fulfilment.outbox o on o.id = t.outbox_id and o.client = ${client}
    union
    select r.external_order_number
    from named n
    join fulfilment.orders r on r.client = ${client} and r.id = n.id and r.external_order_number is not null
  ), sent as materialized (
    select s.id
    from named n
    join fulfilment.shipments s on s.order_id = n.id and s.client = ${client}
    limit ${maxRows}
  ), announced as materialized (
    select a.id, a.external_reference
    from sent s
    join fulfilment.return_merchandise_authorizations a on a.client = ${client} and a.shipment_id = s.id
    limit ${maxRows}
  ), asked as materialized (
    (select o.id, o.kind, o.reference, o.created_at
     from numbers n
     join fulfilment.outbox o on o.client = ${client} and o.reference = n.number and o.family = 'order'
     order by o.id desc
     limit ${maxRows})
    union
    (select o.id, o.kind, o.reference, o.created_at
     from announced a
     join fulfilment.outbox o on o.client = ${client} and o.reference = a.external_reference and o.family = 'return'
     order by o.id desc
     limit ${maxRows})
  )`;

/** SQL: when a row was first stored, last changed, and found missing at the service. */
const storedTimes = (alias: string) => sql`(values
  ('stored', ${sql.ref(`${alias}.first_seen_at`)}),
  ('changed', nullif(${sql.ref(`${alias}.changed_at`)}, ${sql.ref(`${alias}.first_seen_at`)})),
  ('unlisted', ${sql.ref(`${alias}.unlisted_since`)}))`;

/** SQL: the events of the outbox rows, of the order, and of the documents made for it. */
const orderEvents = (client: RawBuilder<string>) => sql`
  select k.created_at as at, false as "isDay", 'outbox' as source, k.id, 'inserted' as what, k.kind as detail,
    k.reference as name, null::text as error
  from asked k
  union all
  select a.at, false, 'outbox', k.id, a.step, a.became, k.reference, left(a.error, 500)
  from asked k
  cross join lateral (
    select * from sync.outbox_attempts a where a.outbox_id = k.id order by a.id desc limit ${maxAttempts}
  ) a
  union all
  select e.at, false, 'order', n.id, e.what, null, r.external_order_number, null
  from named n
  join fulfilment.orders r on r.client = ${client} and r.id = n.id
  cross join lateral ${storedTimes('r')} as e (what, at)
  union all
  select d.created_at, false, 'document', d.id, 'stored', d.kind, null, null
  from asked k
  join fulfilment.documents d on d.id = k.id`;

/** SQL: the events of the shipments and of their packages. */
const shipmentEvents = (client: RawBuilder<string>) => sql`
  select e.at, false, 'shipment', s.id, e.what, e.detail, null, null
  from sent
  join fulfilment.shipments s on s.client = ${client} and s.id = sent.id
  cross join lateral (
    select what, at, null::text as detail from ${storedTimes('s')} as times (what, at) where what <> 'changed'
    union all
    values ('ready to pick', s.ready_to_pick_on, null), ('ready to ship', s.ready_to_ship_on, null),
      ('shipped', s.shipped_on, null)
    union all
    (select 'status', h.seen_at, h.status
     from fulfilment.shipment_events h
     where h.client = ${client} and h.shipment_id = s.id
     order by h.id desc
     limit ${maxRows})
  ) as e (what, at, detail)
  union all
  select e.at, false, 'parcel', p.shipment_id, e.what,
    case when e.what = 'changed' then p.current_track_trace_status end, p.package_number, null
  from sent
  cross join lateral (
    select * from fulfilment.parcels p where p.client = ${client} and p.shipment_id = sent.id limit ${maxPackages}
  ) p
  cross join lateral (
    select * from ${storedTimes('p')} as times (what, at)
    union all
    values ('shipped', p.shipping_date)
  ) as e (what, at)
  union all
  select coalesce(t.current_track_trace_status_date_time, t.seen_at), false, 'parcel', t.shipment_id, 'status',
    t.current_track_trace_status::text, t.package_number, null
  from sent
  cross join lateral (
    select * from fulfilment.track_trace_events t
    where t.client = ${client} and t.shipment_id = sent.id order by t.package_number, t.id desc limit ${maxPackages}
  ) t`;

/** SQL: the events of announced returns, and of returned items. */
const returnEvents = (client: RawBuilder<string>) => sql`
  select e.at, false, 'return', a.id, 'announcement ' || e.what, a.status, null, null
  from announced n
  join fulfilment.return_merchandise_authorizations a on a.client = ${client} and a.id = n.id
  cross join lateral ${storedTimes('a')} as e (what, at)
  union all
  select e.at, e.what = 'processed', 'return', i.id, e.what, null, null, null
  from named n
  cross join lateral (
    select * from fulfilment.return_items i where i.client = ${client} and i.order_id = n.id limit ${maxRows}
  ) i
  cross join lateral (
    select * from ${storedTimes('i')} as times (what, at)
    union all
    values ('processed', i.processed_on::timestamptz), ('restocked', i.restock_on)
  ) as e (what, at)`;

/**
 * Reads the latest events of an order, newest first: outbox rows and attempts, the order, its shipments, parcels,
 * returns and documents. Under a former number, the order is found by its renames.
 */
export async function readOrderTimeline(
  db: Kysely<DB>,
  client: string,
  number: string,
  limit: number,
): Promise<OrderEvent[]> {
  const of = anyClient(client);
  const { rows } = await sql<OrderEvent>`
    with ${findOrder(of, number)}, events as (
      ${orderEvents(of)}
      union all
      ${shipmentEvents(of)}
      union all
      ${returnEvents(of)}
    )
    select at, "isDay", source, id, what, detail, name, error
    from events
    where at is not null
    order by at desc, source, id, what
    limit ${limit}`.execute(db);
  return rows;
}
