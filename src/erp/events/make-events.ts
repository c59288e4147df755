/** Makes business events from the feed, for the subscribers that workers were configured with. */

import { type Kysely, sql, type Transaction } from 'kysely';
import type { EventType } from '../../../config/events.ts';
import type { Database } from '../connection/pool.ts';
import { inTransaction, readSqlState } from '../connection/transaction.ts';
import type { DB } from '../generated/tables.ts';

/** A receiver of events: which ones it gets. Null: all. */
export interface SubscribedEvents {
  readonly name: string;
  readonly types: readonly EventType[] | null;
  readonly clients: readonly string[] | null;
}

/** The name of the consumer that reads the feed for all subscribers. */
const consumer = 'fulfilment-sync events';
/** Maximum number of changes that one transaction makes events from. */
const maxChanges = 500;
/** Time that shipment.shipped waits for the packages of its shipment. */
const parcelWait = sql`interval '2 minutes'`;
/** A subscriber that no worker has had for this time is deleted, with its events. */
const forgetAfter = sql`interval '7 days'`;

/**
 * Registers the subscribers of a worker. A new one gets the changes after this moment.
 * @returns the names of subscribers that no worker has had for 7 days; they and their events are deleted
 */
export function registerSubscribers(db: Database, subscribers: readonly SubscribedEvents[]): Promise<string[]> {
  return inTransaction(db, async (trx) => {
    await sql`select fulfilment.start_consumer(${consumer})`.execute(trx);
    await sql`
      insert into sync.event_subscribers as s (name, types, clients)
      select n.name, n.types, n.clients
      from jsonb_to_recordset(${JSON.stringify(subscribers)}::jsonb) as n (name text, types text[], clients text[])
      order by n.name
      on conflict (name) do update
      set types = excluded.types, clients = excluded.clients, seen_at = now()`.execute(trx);
    const { rows } = await sql<{ name: string }>`
      delete from sync.event_subscribers
      where seen_at < now() - ${forgetAfter}
      returning name`.execute(trx);
    return rows.map(({ name }) => name);
  });
}

/** Renews when a worker last had its subscribers. */
export async function touchSubscribers(db: Kysely<DB>, names: readonly string[]): Promise<void> {
  await sql`
    update sync.event_subscribers
    set seen_at = now()
    where name = any(${names}::text[]) and seen_at < now() - interval '1 minute'`.execute(db);
}

/** The result of reading the feed. `missed`: it no longer had all changes, and events continue with the newest. */
export type MadeEvents = { readonly missed: true } | { readonly missed: false; readonly more: boolean };

/**
 * Makes events from the next changes of the feed, in the transaction that moves the checkpoint. Several workers make each
 * event once.
 */
export async function makeEvents(db: Database): Promise<MadeEvents> {
  try {
    const changes = await inTransaction(db, insertEvents);
    return { missed: false, more: changes === maxChanges };
  } catch (error) {
    // The feed refuses a place that it no longer has, or that a restore took away.
    if (readSqlState(error) !== '22023') throw error;
    await skipToNewest(db);
    return { missed: true };
  }
}

/** Continues with the newest change, and records for all subscribers that they miss some. */
export function skipToNewest(db: Database): Promise<void> {
  return inTransaction(db, async (trx) => {
    await sql`select fulfilment.start_consumer(${consumer}, null, true)`.execute(trx);
    await sql`update sync.event_subscribers set missed_at = now()`.execute(trx);
  });
}

/** SQL: true if the change `b` came after the first load of its stream. What that creates is old, and makes no events. */
const isNews = (stream: string) => sql`exists (
        select from sync.freshness f
        where f.client = b.client and f.stream = ${stream} and f.loaded_at < b.changed_at)`;

/** Inserts the events of the next changes. Returns the number of changes. */
async function insertEvents(trx: Transaction<DB>): Promise<number> {
  const { rows } = await sql<{ changes: number }>`
    with b as materialized (
      select *
      from fulfilment.consume_changes(${consumer}, ${maxChanges})
    ),
    found as (${findEvents}),
    inserted as (
      insert into sync.events
        (subscriber, type, client, source_id, source_key, number, lanes, happened_at, next_attempt_at)
      select u.name, f.type, b.client, f.source_id, f.source_key, f.number, array_remove(array[
          l.prefix || 'order ' || f.order_id,
          case when f.type like 'order.%' or f.order_id is not null then l.prefix || 'number ' || f.number end,
          case when f.order_id is null then l.prefix || b.entity || ' ' || coalesce(b.id::text, b.key) end
        ], null),
        b.changed_at, case when f.type = 'shipment.shipped' and not exists (
          select from fulfilment.parcels p where p.client = b.client and p.shipment_id = f.source_id)
          then now() + ${parcelWait} else now() end
      from found f
      join b on b.seq = f.seq
      join sync.event_subscribers u
        on (u.types is null or f.type = any(u.types)) and (u.clients is null or b.client = any(u.clients))
      cross join lateral (select u.name || ' ' || b.client || ' ' as prefix) l
      order by f.seq, case f.type when 'shipment.created' then 0 else 1 end
    ),
    released as (
      update sync.events e
      set next_attempt_at = now()
      from b
      where b.entity = 'parcels' and e.type = 'shipment.shipped' and e.client = b.client
        and e.source_id = split_part(b.key, ':', 1)::bigint and e.attempts = 0 and e.delivered_at is null
        and e.next_attempt_at > now()
    )
    select count(*)::int as changes
    from b`.execute(trx);
  return rows[0]?.changes ?? 0;
}

/** SQL: the events of the changes in `b`, for no subscriber yet. */
const findEvents = sql`
      -- An order that the service took, or a row that was given up.
      select b.seq, case o.status when 'done' then 'order.accepted' else 'order.rejected' end as type,
        o.id as source_id, null as source_key, o.reference as number,
        case when o.result ->> 'orderId' ~ '^\\d{1,18}$' then (o.result ->> 'orderId')::bigint end as order_id
      from b
      join fulfilment.outbox o on o.id = b.id
      where b.entity = 'outbox' and o.kind in ('order.create', 'order.replace') and o.status in ('done', 'dead')
      union all
      -- Every status of a shipment that was seen has a row of its own, also if the next one came at once.
      select distinct b.seq, t.type, s.id, null, r.external_order_number, s.order_id
      from b
      join fulfilment.shipments s on s.client = b.client and s.id = b.id
      join fulfilment.shipment_events e on e.client = b.client and e.shipment_id = b.id and e.seen_at = b.changed_at
      left join fulfilment.orders r on r.client = s.client and r.id = s.order_id
      cross join lateral (
        select 'shipment.created' as type where b.operation = 'created'
        union all
        select case e.status when 'SHIPPED' then 'shipment.shipped' else 'shipment.error' end
        where e.status in ('SHIPPED', 'ERROR') and (b.operation = 'created' or 'status' = any(b.changed_columns))
      ) t
      where b.entity = 'shipments' and ${isNews('shipments')}
      union all
      select b.seq, 'return.processed', r.id, null, r.external_order_number, r.order_id
      from b
      join fulfilment.return_items r on r.client = b.client and r.id = b.id
      where b.entity = 'return_items' and (b.operation = 'created' or 'processed_on' = any(b.changed_columns))
        and sync.real_day(r.processed_on) is not null and ${isNews('return-items')}
      union all
      select b.seq, 'inbound.completed', i.id, null, i.reference, null
      from b
      join fulfilment.inbounds i on i.client = b.client and i.id = b.id
      where b.entity = 'inbounds' and (b.operation = 'created' or 'status' = any(b.changed_columns))
        and i.status = 'COMPLETED' and ${isNews('inbounds')}
      union all
      select b.seq, 'stock.changed', null, b.key, b.key, null
      from b
      where b.entity = 'stock_levels' and b.operation in ('created', 'updated')`;
