/** The queue of business events (`sync.events`): what is due, what is posted, and how that ended. */

import { type Kysely, type RawBuilder, sql } from 'kysely';
import type { EventType } from '../../../config/events.ts';
import type { DB } from '../generated/tables.ts';
import { findPersonalColumns } from '../mirror/erasures.ts';

/** An event that this worker posts now. */
export interface ClaimedEvent {
  readonly id: string;
  /** The same for every attempt. */
  readonly messageId: string;
  readonly type: EventType;
  readonly attempts: number;
  /** JSON text of what is posted: type, timestamp, and data with the row as it is now. */
  readonly body: string;
}

/** What a claim takes. */
export interface EventClaim {
  readonly subscriber: string;
  readonly maxEvents: number;
  /** Time within which no other worker claims these events. */
  readonly leaseMs: number;
  /** True if names, addresses and other personal data are posted. */
  readonly personalData: boolean;
}

/** SQL: an event that is neither delivered nor given up. */
const isOpen = (event: string) => {
  const column = (name: string) => sql.ref(`${event}.${name}`);
  return sql`${column('delivered_at')} is null and ${column('dead_at')} is null`;
};

/**
 * Claims events that are due and first in their lanes, the one that is due longest first, and reads the rows they are
 * about.
 */
export async function claimEvents(
  db: Kysely<DB>,
  { subscriber, maxEvents, leaseMs, personalData }: EventClaim,
): Promise<ClaimedEvent[]> {
  const { rows } = await sql<ClaimedEvent>`
    with chosen as materialized (
      select e.id
      from sync.events e
      where e.subscriber = ${subscriber} and e.next_attempt_at <= statement_timestamp() and ${isOpen('e')}
        and not exists (
          select from sync.events b
          where b.lanes && e.lanes and b.id < e.id and ${isOpen('b')})
      order by e.next_attempt_at, e.id
      limit ${maxEvents}
      for update skip locked
    ), e as (
      update sync.events e
      set attempts = e.attempts + 1, next_attempt_at = statement_timestamp() + make_interval(secs => ${leaseMs / 1_000})
      from chosen c
      where e.id = c.id
      returning e.*
    )
    select e.id::text as id, e.message_id::text as "messageId", e.type, e.attempts, json_build_object(
        'type', e.type, 'timestamp', to_char(e.happened_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
        'data', json_build_object('client', e.client, 'id', coalesce(r.id, e.source_id),
          'number', coalesce(r.number, e.number), 'row', r.row))::text as body
    from e
    left join lateral (${selectRow(personalData)}) r on true
    order by e.id`.execute(db);
  return rows;
}

/** SQL: the row that event `e` is about, as it is now, with the id and number that a receiver knows it by. */
function selectRow(personalData: boolean): RawBuilder<unknown> {
  const row = (alias: string, table: string) =>
    sql`to_jsonb(${sql.ref(alias)}) - ${findHidden(table, personalData)}::text[]`;
  const address = personalData
    ? sql`jsonb_build_object('addresses', (
          select coalesce(jsonb_agg(${row('a', 'order_addresses')} order by a.role), '[]')
          from fulfilment.order_addresses a
          where a.client = o.client and a.order_id = o.id))`
    : sql`'{}'::jsonb`;
  return sql`
      select o.id, o.external_order_number as number,
        ${row('o', 'orders')} || ${address} || jsonb_build_object('items', (
          select coalesce(jsonb_agg(${row('i', 'order_items')} order by i.id), '[]')
          from fulfilment.order_items i
          where i.client = o.client and i.order_id = o.id)) as row
      from fulfilment.outbox x
      join fulfilment.orders o on o.client = x.client
        and o.id = case when x.result ->> 'orderId' ~ '^\\d{1,18}$' then (x.result ->> 'orderId')::bigint end
      where e.type = 'order.accepted' and x.id = e.source_id
      union all
      select x.id, x.reference, jsonb_build_object('id', x.id, 'kind', x.kind, 'reference', x.reference,
          'status', x.status, 'attempts', x.attempts, 'created_at', x.created_at, 'finished_at', x.finished_at)
          || case when ${personalData}::boolean then jsonb_build_object('last_error', x.last_error) else '{}' end
      from fulfilment.outbox x
      where e.type = 'order.rejected' and x.id = e.source_id
      union all
      select s.id, s.external_order_number, ${row('s', 'shipment_overview')} || jsonb_build_object('items', (
          select coalesce(jsonb_agg(${row('i', 'shipment_items')} order by i.id), '[]')
          from fulfilment.shipment_items i
          where i.client = s.client and i.shipment_id = s.id), 'parcels', (
          select coalesce(jsonb_agg(${row('p', 'parcel_overview')} order by p.package_number), '[]')
          from fulfilment.parcel_overview p
          where p.client = s.client and p.shipment_id = s.id and p.unlisted_since is null))
      from fulfilment.shipment_overview s
      where e.type like 'shipment.%' and s.client = e.client and s.id = e.source_id
      union all
      select r.id, r.external_order_number, ${row('r', 'return_items')}
      from fulfilment.return_items r
      where e.type = 'return.processed' and r.client = e.client and r.id = e.source_id
      union all
      select n.id, n.reference, ${row('n', 'inbounds')} || jsonb_build_object('items', (
          select coalesce(jsonb_agg(${row('i', 'inbound_items')} order by i.id), '[]')
          from fulfilment.inbound_items i
          where i.client = n.client and i.inbound_id = n.id))
      from fulfilment.inbounds n
      where e.type = 'inbound.completed' and n.client = e.client and n.id = e.source_id
      union all
      select null, t.sku, to_jsonb(t)
      from fulfilment.stock_levels t
      where e.type = 'stock.changed' and t.client = e.client and t.sku = e.source_key`;
}

/** Returns the columns of a table that are not posted: the resource as received, and those with personal data. */
function findHidden(table: string, personalData: boolean): readonly string[] {
  return [...new Set(['raw', ...(personalData ? [] : findPersonalColumns(table))])];
}

/** Records that the receiver took an event. */
export async function recordTaken(db: Kysely<DB>, id: string): Promise<void> {
  await sql`
    update sync.events
    set delivered_at = clock_timestamp(), last_error = null
    where id = ${id} and delivered_at is null`.execute(db);
}

/**
 * Records why an attempt failed, and when the next one begins. An event is given up if it is older than `maxAgeMs`, and
 * at least ten attempts failed.
 */
export async function recordRefused(
  db: Kysely<DB>,
  id: string,
  { error, delayMs, maxAgeMs }: { readonly error: string; readonly delayMs: number; readonly maxAgeMs: number },
): Promise<void> {
  await sql`
    update sync.events
    set last_error = ${error}, next_attempt_at = clock_timestamp() + make_interval(secs => ${delayMs / 1_000}),
      dead_at = case
        when attempts >= 10 and happened_at < clock_timestamp() - make_interval(secs => ${maxAgeMs / 1_000})
        then clock_timestamp() end
    where id = ${id} and delivered_at is null`.execute(db);
}

/** An event that is not delivered, for people. */
export interface UndeliveredEvent {
  readonly id: number;
  readonly subscriber: string;
  readonly type: string;
  readonly client: string;
  readonly number: string | null;
  readonly happenedAt: Date;
  readonly attempts: number;
  /** Null: it was given up. */
  readonly nextAttemptAt: Date | null;
  readonly lastError: string | null;
}

/** Lists the first events that are not delivered, those that were given up first. */
export async function listUndelivered(db: Kysely<DB>, maxRows: number): Promise<UndeliveredEvent[]> {
  const { rows } = await sql<UndeliveredEvent>`
    select id::int8 as id, subscriber, type, client, number, happened_at as "happenedAt", attempts,
      case when dead_at is null then next_attempt_at end as "nextAttemptAt", last_error as "lastError"
    from sync.events
    where delivered_at is null
    order by dead_at is null, id
    limit ${maxRows}`.execute(db);
  return rows;
}

/**
 * Makes undelivered events due at once: these ones, or all that were given up. Returns their number.
 * @param ids null: all that were given up
 */
export async function retryEvents(db: Kysely<DB>, ids: readonly number[] | null): Promise<number> {
  const { numAffectedRows } = await sql`
    update sync.events
    set dead_at = null, attempts = 0, next_attempt_at = clock_timestamp()
    where delivered_at is null
      and case when ${ids}::bigint[] is null then dead_at is not null else id = any(${ids}::bigint[]) end`.execute(db);
  return Number(numAffectedRows ?? 0);
}

/** Events of one subscriber that are not delivered as they should. */
export interface EventBacklog {
  readonly subscriber: string;
  /** Events that wait after at least three attempts, and those behind them. */
  readonly waiting: number;
  readonly dead: number;
  /** When the oldest waiting event happened. */
  readonly oldestAt: Date | null;
  readonly lastError: string | null;
  /** When the feed no longer had all changes; null if that was never, or more than 7 days ago. */
  readonly missedAt: Date | null;
}

/** Reads the subscribers whose receivers do not take their events, or that missed some. */
export async function readEventBacklog(db: Kysely<DB>): Promise<EventBacklog[]> {
  const { rows } = await sql<EventBacklog>`
    select s.name as subscriber, coalesce(f.waiting, 0) as waiting, d.dead, f.happened_at as "oldestAt",
      coalesce(f.last_error, d.last_error) as "lastError", m.missed_at as "missedAt"
    from sync.event_subscribers s
    left join lateral (
      select (select count(*)::int from sync.events e where e.subscriber = s.name and ${isOpen('e')}) as waiting,
        f.happened_at, f.last_error
      from sync.events f
      where f.subscriber = s.name and ${isOpen('f')} and f.attempts >= 3 and f.last_error is not null
      order by f.id
      limit 1
    ) f on true
    cross join lateral (
      select count(*)::int as dead, (array_agg(d.last_error order by d.id desc))[1] as last_error
      from sync.events d
      where d.subscriber = s.name and d.dead_at is not null
    ) d
    left join lateral (select s.missed_at where s.missed_at > now() - interval '7 days') m on true
    where f.waiting > 0 or d.dead > 0 or m.missed_at is not null
    order by s.name`.execute(db);
  return rows;
}
