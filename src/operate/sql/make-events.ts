/** Makes business events from the feed, for the receivers that workers were configured with. */

import { sql, type Transaction } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';
import type { Database } from '../../db/pool.ts';
import { inTransaction, readSqlState } from '../../db/transaction.ts';
import { isCopy } from '../../push/sql/push-database.ts';
import {
  type EventFact,
  type EventReceiver,
  type NumberLane,
  parcelWaitMs,
  planEvents,
  rescanHorizonMs,
  type StoredDelivery,
  storedTypes,
  toOrderNumber,
} from '../deliveries/plan-events.ts';
import { insertDeliveries } from './delivery-lanes.ts';
import { lockReceivers, startCheckpoint } from './receivers.ts';

/** Maximum number of changes that one transaction makes events from. */
const maxChanges = 500;
/** No events are made for a receiver that has been away for this time. */
const goneAfter = sql`interval '7 days'`;

/**
 * The result of reading the feed. `missed`: it no longer had all changes, and events continue with
 * the newest.
 */
export type MadeEvents =
  | { readonly missed: true }
  | { readonly missed: false; readonly more: boolean };

/**
 * Makes events from the next changes of the feed, in the transaction that moves the checkpoint.
 * Several workers make each event once: one makes them, and the others do not wait for it.
 */
export async function makeEvents(db: Database): Promise<MadeEvents> {
  try {
    const changes = await inTransaction(db, makeNext);
    return { missed: false, more: changes === maxChanges };
  } catch (error) {
    // The feed refuses a place that it no longer has, or that a restore took away.
    if (readSqlState(error) !== '22023') throw error;
    await skipToNewest(db);
    return { missed: true };
  }
}

/** Continues with the newest change, and records for all receivers that they miss some. */
function skipToNewest(db: Database): Promise<void> {
  return inTransaction(db, async (trx) => {
    await startCheckpoint(trx, true);
    await sql`update sync.receivers set missed_at = now() where kind = 'event'`.execute(trx);
  });
}

/** A span of the feed, in the order of commit. */
interface FeedSpan {
  /** Last seq before the span. */
  readonly after: number;
  readonly last: number;
}

/** Makes the events of the next changes, but none in a copy. Returns the number of changes. */
async function makeNext(trx: Transaction<DB>): Promise<number> {
  const span = await takeChanges(trx);
  if (span === null) return 0;

  if (span.postsEvents) await addEvents(trx, span, await readFacts(trx, span));

  await sql`update sync.event_checkpoint set seq = ${span.last}`.execute(trx);
  return span.changes;
}

/**
 * Locks the checkpoint, and returns the next changes; null if there are none, or if another worker
 * makes events.
 */
async function takeChanges(
  trx: Transaction<DB>,
): Promise<(FeedSpan & { readonly changes: number; readonly postsEvents: boolean }) | null> {
  const { rows: places } = await sql<{ after: number }>`
    select c.seq as after
    from sync.event_checkpoint c
    where exists (select from fulfilment.changes_since(c.seq, 1))
    for update skip locked`.execute(trx);
  const after = places[0]?.after;
  if (after === undefined) return null;

  const { rows } = await sql<{ last: number | null; changes: number; postsEvents: boolean }>`
    select max(seq) as last, count(*)::int as changes, not ${isCopy} as "postsEvents"
    from fulfilment.changes_since(${after}, ${maxChanges})`.execute(trx);

  const { last = null, changes = 0, postsEvents = false } = rows[0] ?? {};
  return last === null ? null : { after, last, changes, postsEvents };
}

/** SQL: the changes of a span. */
const selectChanges = ({ after, last }: FeedSpan) => sql`
      select c.*, coalesce((
        select m.last_seq
        from sync.rescanned_changes m
        where m.first_seq <= c.seq
        order by m.first_seq desc
        limit 1) >= c.seq, false) as is_rescan
      from fulfilment.changes c
      where c.seq > ${after} and c.seq <= ${last}`;

/**
 * SQL: true if the change `b` came after the first load of its stream. What that creates is old,
 * and makes no events.
 */
const isLoaded = (stream: string) => sql`exists (
        select from sync.freshness f
        where f.client = b.client and f.stream = ${stream} and f.loaded_at < b.changed_at)`;

/** SQL: the newest date of a stream of the client of the change `b`, as the service dates it. */
const newestOf = (stream: string) => sql`(
        select f.newest_source_at from sync.freshness f where f.client = b.client
          and f.stream = ${stream})`;

/** SQL: the names of a package and of its shipment in the feed. */
const shipmentIdOf = sql`case when b.entity in ('parcels', 'track_traces')
        then split_part(b.key, ':', 1)::bigint end`;
const packageOf = sql`substr(b.key, position(':' in b.key) + 1)`;

/**
 * SQL: the order of a change `b` that the service took, or whose row was given up. A change that
 * finished nothing, such as an unknown outcome, is none, although the row may be finished since.
 */
const findOrderFact = sql`
      select case o.status when 'done' then 'order.accepted' else 'order.rejected' end as type,
        o.id as source_id, null as source_key, o.reference as number,
        case when o.result ->> 'orderId' ~ '^\\d{1,18}$' then (o.result ->> 'orderId')::bigint
          end as order_id,
        true as is_of_order, b.changed_at as happened_at, null::timestamptz as newest_at,
        true as has_parcels
      from fulfilment.outbox o
      where b.entity = 'outbox' and o.id = b.id and o.kind in ('order.create', 'order.replace')
        and o.status in ('done', 'dead') and 'finished_at' = any(b.changed_columns)`;

/**
 * SQL: the states of a shipment. Each one that was seen has a row of its own, also if the next one
 * came at once.
 */
const findShipmentFacts = sql`
      select distinct t.type, s.id, null, r.external_order_number, s.order_id, true,
        case when t.type = 'shipment.shipped' then sync.real_time(s.shipped_on)
          when t.type = 'shipment.created' or b.operation = 'created'
            then sync.real_time(s.ready_to_pick_on)
          else b.changed_at end,
        ${newestOf('shipments')}, exists (
          select from fulfilment.parcels p where p.client = s.client and p.shipment_id = s.id)
      from fulfilment.shipments s
      join fulfilment.shipment_events e on e.client = s.client and e.shipment_id = s.id
        and e.seen_at = b.changed_at
      left join fulfilment.orders r on r.client = s.client and r.id = s.order_id
      cross join lateral (
        select 'shipment.created' as type where b.operation = 'created'
        union all
        select case e.status when 'SHIPPED' then 'shipment.shipped' else 'shipment.error' end
        where e.status in ('SHIPPED', 'ERROR')
          and (b.operation = 'created' or 'status' = any(b.changed_columns))
      ) t
      where b.entity = 'shipments' and s.client = b.client and s.id = b.id
        and ${isLoaded('shipments')}`;

/**
 * SQL: returns, inbounds and stock. A return that is processed on a day may be processed until its
 * end.
 */
const findOtherFacts = sql`
      select 'return.processed', r.id, null, r.external_order_number, r.order_id,
        r.order_id is not null or r.external_order_number is not null,
        (sync.real_day(r.processed_on) + 1)::timestamptz, ${newestOf('return-items')}, true
      from fulfilment.return_items r
      where b.entity = 'return_items' and r.client = b.client and r.id = b.id
        and (b.operation = 'created' or 'processed_on' = any(b.changed_columns))
        and sync.real_day(r.processed_on) is not null and ${isLoaded('return-items')}
      union all
      select 'inbound.completed', i.id, null, i.reference, null, false,
        sync.real_time(i.completed_on), ${newestOf('inbounds')}, true
      from fulfilment.inbounds i
      where b.entity = 'inbounds' and i.client = b.client and i.id = b.id
        and (b.operation = 'created' or 'status' = any(b.changed_columns))
        and i.status = 'COMPLETED' and ${isLoaded('inbounds')}
      union all
      select 'stock.changed', null, b.key, b.key, null, false, b.changed_at, null, true
      where b.entity = 'stock_levels' and b.operation in ('created', 'updated')`;

/**
 * SQL: packages that came, whose codes came, or that left the track-trace list. Packages of a
 * shipment that the first load or a backfill found come later than it, and are as old.
 */
const findPackageFacts = sql`
      select 'shipment.tracking_changed', s.id, null, r.external_order_number, s.order_id, true,
        b.changed_at, null, exists (
          select from fulfilment.shipment_events e
          join sync.freshness f on f.client = e.client and f.stream = 'shipments'
            and f.loaded_at < e.seen_at
          where e.client = s.client and e.shipment_id = s.id and e.status = 'SHIPPED'
            and e.seen_at < b.changed_at - make_interval(secs => ${parcelWaitMs / 1_000})
            and coalesce(sync.real_time(s.shipped_on), e.seen_at)
              > e.seen_at - make_interval(secs => ${rescanHorizonMs / 1_000}))
      from fulfilment.parcels p
      join fulfilment.shipments s on s.client = p.client and s.id = p.shipment_id
      left join fulfilment.orders r on r.client = s.client and r.id = s.order_id
      where b.entity = 'parcels' and p.client = b.client and p.shipment_id = ${shipmentIdOf}
        and p.package_number = ${packageOf} and p.unlisted_since is null
        and (b.operation = 'created'
          or 'unlisted_since' = any(b.changed_columns)
          or b.changed_columns && array['track_and_trace_code', 'track_and_trace_bar_code',
              'tracking_number']
            and coalesce(p.track_and_trace_code, p.track_and_trace_bar_code, p.tracking_number)
              is not null)
      union all
      select 'parcel.tracking_ended', t.shipment_id, coalesce(p.package_number, t.package_number),
        coalesce(r.external_order_number, t.external_order_number), s.order_id, true, b.changed_at,
        null, true
      from fulfilment.track_traces t
      -- An entry without a number is about all packages of the shipment that have no entry of
      -- their own.
      left join fulfilment.parcels p on t.package_number = '' and p.client = t.client
        and p.shipment_id = t.shipment_id and p.unlisted_since is null and not exists (
          select from fulfilment.track_traces n
          where n.client = p.client and n.shipment_id = p.shipment_id and n.package_number <> ''
            and n.package_number = p.package_number)
      left join fulfilment.shipments s on s.client = t.client and s.id = t.shipment_id
      left join fulfilment.orders r on r.client = s.client and r.id = s.order_id
      where b.entity = 'track_traces' and b.operation = 'unlisted' and t.client = b.client
        and t.shipment_id = ${shipmentIdOf} and t.package_number = ${packageOf}`;

/** Reads the changes of a span that may be events. */
async function readFacts(trx: Transaction<DB>, span: FeedSpan): Promise<EventFact[]> {
  const { rows } = await sql<EventFact>`
    select f.type, b.client, exists (select from sync.clients k where k.client = b.client)
      as "isKnownClient",
      case when f.is_of_order and f.number is not null then ''
        when b.entity in ('parcels', 'track_traces') then 'shipments ' || split_part(b.key, ':', 1)
        else b.entity || ' ' || coalesce(b.id::text, b.key) end as source,
      f.source_id as "sourceId", f.source_key as "sourceKey", f.number,
      coalesce(f.order_id, (
        select max(o.id)
        from fulfilment.orders o
        where o.client = b.client and o.external_order_number = f.number and f.is_of_order))
        as "orderId",
      b.changed_at as "changedAt", f.happened_at as "happenedAt", f.newest_at as "newestAt",
      b.is_rescan as "isRescan", b.operation = 'created' as "isCreated",
      f.has_parcels as "hasParcels"
    from (${selectChanges(span)}) b
    cross join lateral (
      ${findOrderFact}
      union all ${findShipmentFacts}
      union all ${findOtherFacts}
      union all ${findPackageFacts}
    ) f
    order by b.seq, case f.type when 'shipment.created' then 0 else 1 end`.execute(trx);

  return rows;
}

/** Makes shipment.shipped due that has waited for packages. */
async function releaseShipped(trx: Transaction<DB>, span: FeedSpan): Promise<void> {
  await sql`
    update sync.deliveries d
    set not_before = null, next_at = case when d.next_at is not null then now() end
    from (
      select distinct b.client, ${shipmentIdOf} as shipment_id
      from (${selectChanges(span)}) b
      where b.entity = 'parcels'
    ) b
    where d.client = b.client and d.type = 'shipment.shipped' and d.source_id = b.shipment_id
      and d.status = 'waiting' and d.tries = 0 and d.not_before is not null`.execute(trx);
}

/**
 * Plans and adds the events of facts. Nothing of the ERP is read from here on, so the receivers are
 * locked for a short time.
 */
async function addEvents(
  trx: Transaction<DB>,
  span: FeedSpan,
  facts: readonly EventFact[],
): Promise<void> {
  const receivers = await readReceivers(trx);
  const names = receivers.map(({ name }) => name);
  const goneNames = receivers.filter(({ isGone }) => isGone).map(({ name }) => name);
  await lockReceivers(trx, names);
  await releaseShipped(trx, span);

  const stored = await findStored(trx, facts);
  const lanes = await findNumberLanes(trx, names, facts);
  const planned = planEvents(facts, receivers, { stored, lanes });

  await insertDeliveries(trx, planned);

  await sql`
    update sync.receivers
    set missed_at = now()
    where name = any(${goneNames}::text[])`.execute(trx);
}

async function readReceivers(trx: Transaction<DB>): Promise<EventReceiver[]> {
  const { rows } = await sql<EventReceiver>`
    select name, types, clients, started_at as "startedAt",
      coalesce(away_since < now() - ${goneAfter}, false) as "isGone"
    from sync.receivers
    where kind = 'event'
    order by name`.execute(trx);
  return rows;
}

/** Finds the deliveries about the sources of facts on which new ones depend. */
async function findStored(
  trx: Transaction<DB>,
  facts: readonly EventFact[],
): Promise<StoredDelivery[]> {
  const dependent = facts.filter(({ type }) => storedTypes.includes(type));

  const { rows } = await sql<StoredDelivery>`
    select d.receiver, d.client, d.type, d.source_id as "sourceId",
      bool_or(d.tries > 0 or d.status <> 'waiting') as tried,
      bool_or(d.status = 'waiting' and d.tries = 0) as untried
    from (
      select distinct s.client, s.id
      from unnest(${dependent.map(({ client }) => client)}::text[],
        ${dependent.map(({ sourceId }) => sourceId)}::bigint[]) as s (client, id)
    ) s
    join sync.deliveries d on d.client = s.client and d.type = any(${storedTypes}::text[])
      and d.source_id = s.id
    group by d.receiver, d.client, d.type, d.source_id`.execute(trx);

  return rows;
}

/** Finds the lanes in which deliveries about the orders of facts wait, by their numbers. */
async function findNumberLanes(
  trx: Transaction<DB>,
  receivers: readonly string[],
  facts: readonly EventFact[],
): Promise<NumberLane[]> {
  const numbered = facts.filter((fact) => toOrderNumber(fact) !== null);

  const { rows } = await sql<NumberLane>`
    select r.receiver, n.client, n.number, d.lane
    from unnest(${receivers}::text[]) as r (receiver)
    cross join (
      select distinct client, number
      from unnest(${numbered.map(({ client }) => client)}::text[],
        ${numbered.map(({ number }) => number)}::text[]) as f (client, number)
    ) n
    cross join lateral (
      select w.lane
      from sync.deliveries w
      where w.receiver = r.receiver and w.client = n.client and w.number = n.number
        and w.status = 'waiting' and w.type not in ('inbound.completed', 'stock.changed')
      order by w.receiver, w.client, w.number, w.id desc
      limit 1
    ) d`.execute(trx);
  return rows;
}
