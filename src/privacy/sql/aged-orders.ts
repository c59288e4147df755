import { type RawBuilder, sql, type Transaction } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';
import { anyClient } from '../../db/values.ts';
import { findQuarantinedOrder } from '../../pull/sql/quarantine.ts';
import type { OrderToErase } from './order-scope.ts';

/** One step through aged data: at most `limit` rows that are older than `days`. */
export interface AgedStep {
  readonly client: string;
  readonly by: string;
  readonly days: number;
  readonly limit: number;
  /** True to find also orders whose personal data was erased. */
  readonly findsErased?: boolean;
}

/**
 * Days for which the service lists shipments. Those of an order that was first read later may never
 * be read.
 */
const listedDays = 90;
/**
 * Days for which an announced return and a tracked package count as open after their last change.
 * Goods may never be sent back, and a carrier may never report the end. Also the days after which
 * the pieces of an order are not waited for that may have been shipped before they were listed
 * here.
 */
const withoutNewsDays = 365;

/** What is known of a stored order and of what may still come. */
interface AgedOrderFacts {
  readonly isErased: boolean;
  /**
   * True if the last date of the order, its shipments and returns is old enough. A date after the
   * last change of its row is a mistake, or a plan: the change counts.
   */
  readonly isOld: boolean;
  readonly isUnlisted: boolean;
  readonly hasShipment: boolean;
  /** True if all lines are cancelled for long enough. */
  readonly isCancelled: boolean;
  /** True if the order has no line here. */
  readonly hasNoLine: boolean;
  /** True if pieces of it are on no shipment that has left. */
  readonly hasOpenLine: boolean;
  /** True if it was read so late that shipments of it may never be read, and if it is very old. */
  readonly mayLackShipments: boolean;
  /**
   * True if a shipment has not left, a package is tracked, a return is announced, or something is
   * to be read.
   */
  readonly isUnderWay: boolean;
  /** True if outbox rows of it are open or dead. */
  readonly hasOpenRow: boolean;
}

/** What happens to a stored order: it is erased, it is not finished, or it waits for a person. */
type AgedOrderVerdict = 'erase' | 'keep' | 'lines' | 'rows';

/**
 * Decides whether the personal data of an order is erased. Nothing is erased while something of the
 * order is to come.
 * @returns `lines`: it is old, but pieces of it are to come; `rows`: it is finished, but outbox
 *   rows of it are not
 */
function judgeAgedOrder(facts: AgedOrderFacts): AgedOrderVerdict {
  if (facts.isErased || !facts.isOld || facts.isUnderWay) return 'keep';
  if (!facts.isUnlisted && !facts.isCancelled && !facts.mayLackShipments) {
    if (facts.hasOpenLine) return 'lines';
    // Its lines may not have been read yet.
    if (facts.hasNoLine && !facts.hasShipment) return 'keep';
  }
  return facts.hasOpenRow ? 'rows' : 'erase';
}

/**
 * The orders to erase among those that a step looked at, and the old orders that keep their data.
 */
export interface AgedOrders {
  readonly orders: readonly OrderToErase[];
  /** Id of the last order that was looked at; null: none. */
  readonly lastId: number | null;
  /** Number of finished orders with open or dead outbox rows. */
  readonly blocked: number;
  /** Number of old orders with pieces to come. */
  readonly incomplete: number;
}

/**
 * Finds orders that have been finished for a number of days, among the next `limit` orders after
 * `afterId`.
 */
export async function findAgedOrders(
  trx: Transaction<DB>,
  step: AgedStep,
  afterId: number,
): Promise<AgedOrders> {
  const rows = await readFacts(trx, step, afterId);
  const judged = rows.map((row) => ({ ...row, verdict: judgeAgedOrder(row) }));

  const count = (verdict: AgedOrderVerdict) =>
    judged.filter((row) => row.verdict === verdict).length;

  return {
    orders: judged
      .filter(({ verdict }) => verdict === 'erase')
      .map(({ id, number }) => ({ id, number })),
    lastId: rows.at(-1)?.id ?? null,
    blocked: count('rows'),
    incomplete: count('lines'),
  };
}

async function readFacts(
  trx: Transaction<DB>,
  { client, days, limit, findsErased = false }: AgedStep,
  afterId: number,
) {
  const cutoff = sql`now() - make_interval(days => ${days})`;

  const { rows } = await sql<AgedOrderFacts & { readonly id: number; readonly number: string }>`
    with part as materialized (
      select o.id, o.external_order_number, o.unlisted_since, o.changed_at, o.first_seen_at,
        greatest(sync.real_day(o.ordered_on), sync.real_day(o.preferred_shipping_date))::timestamptz
          as placed_at
      from fulfilment.orders o
      where o.client = ${anyClient(client)} and o.id > ${afterId}
      order by o.id
      limit ${limit}
    ), quarantined as materialized (${selectQuarantined(client, cutoff)})
    select p.id, coalesce(p.external_order_number, '') as number,
      not ${findsErased}::boolean and exists (
        select from sync.erasures e
        where e.client = ${anyClient(client)} and e.entity = 'orders' and e.id = p.id)
          as "isErased",
      coalesce(p.unlisted_since, greatest(
        case when p.placed_at > now() then p.changed_at else p.placed_at end,
        s.shipped_at, r.returned_at), p.changed_at) < ${cutoff} as "isOld",
      p.unlisted_since is not null as "isUnlisted", s.shipments > 0 as "hasShipment",
      i.lines > 0 and i.ordered = 0 and p.changed_at < ${cutoff} as "isCancelled",
        i.lines = 0 as "hasNoLine",
      coalesce(i.is_open, false) as "hasOpenLine",
      coalesce(p.first_seen_at > p.placed_at + make_interval(days => ${listedDays}), true)
        and coalesce(p.placed_at, p.changed_at)
          < ${cutoff} - make_interval(days => ${withoutNewsDays})
        as "mayLackShipments",
      coalesce(s.is_under_way, false) or ${isToBeRead(client, 'orders', sql`p.id`)} or exists (
        select from quarantined q
        where q.order_id = p.id or q.number = p.external_order_number) as "isUnderWay",
      exists (
        select from fulfilment.outbox b
        where b.client = ${anyClient(client)} and b.family = 'order'
          and b.reference = p.external_order_number
          and b.status in ('pending', 'sending', 'unknown', 'dead')) as "hasOpenRow"
    from part p
    cross join lateral (${selectShipments(client)}) s
    cross join lateral (${selectLines(client)}) i
    cross join lateral (
      select max(least(sync.real_day(r.processed_on)::timestamptz, r.changed_at)) as returned_at
      from (${selectReturns(client)}) r) r
    order by p.id`.execute(trx);
  return rows;
}

/**
 * SQL: the lines of order p, how many are ordered, and whether pieces of one are still to be
 * shipped.
 */
const selectLines = (client: string) => sql`
  select count(*) as lines, count(*) filter (where i.quantity is distinct from 0) as ordered,
    bool_or(i.to_come > 0) as is_open
  from fulfilment.order_lines i
  where i.client = ${anyClient(client)} and i.order_id = p.id`;

/** SQL: the return items of order p, also those that name only a line of it or of its shipments. */
const selectReturns = (client: string) => sql`
  select r.processed_on, r.changed_at
  from fulfilment.return_items r
  where r.client = ${anyClient(client)} and r.order_id = p.id
  union all
  select r.processed_on, r.changed_at
  from fulfilment.order_items l
  join fulfilment.return_items r on r.client = l.client and r.order_item_id = l.id
  where l.client = ${anyClient(client)} and l.order_id = p.id and r.order_id is null
  union all
  select r.processed_on, r.changed_at
  from fulfilment.shipments s
  join fulfilment.shipment_items l on l.client = s.client and l.shipment_id = s.id
  join fulfilment.return_items r on r.client = l.client and r.shipment_item_id = l.id
  where s.client = ${anyClient(client)} and s.order_id = p.id and r.order_id is null`;

/** SQL: the shipments of order p, their last date, and whether something of one is under way. */
const selectShipments = (client: string) => sql`
  select count(*) as shipments, max(least(
      sync.real_time(greatest(s.shipped_on, s.ready_to_ship_on, s.ready_to_pick_on)), s.changed_at))
        as shipped_at,
    bool_or(s.status is distinct from 'SHIPPED' and s.unlisted_since is null
      or ${isToBeRead(client, 'shipments', sql`s.id`)}
      or exists (
        select from sync.waiting_reads d
        where d.client = ${anyClient(client)} and d.resource = 'parcels' and d.id = s.id
          and d.next_at < 'infinity' and ${isRecent('d.since')})
      or exists (
        select from fulfilment.track_traces t
        where t.client = ${anyClient(client)} and t.shipment_id = s.id and t.unlisted_since is null
          and ${isRecent('t.changed_at')})
      or exists (
        select from fulfilment.return_merchandise_authorizations a
        where a.client = ${anyClient(client)} and a.shipment_id = s.id
          and ${isAnnounced(client, 'a')})) as is_under_way
  from fulfilment.shipments s
  where s.client = ${anyClient(client)} and s.order_id = p.id`;

/** SQL: true if a time is so recent that there may be news. */
const isRecent = (at: string) =>
  sql`${sql.ref(at)} > now() - make_interval(days => ${withoutNewsDays})`;

/** SQL: true if goods of an announced return may still come. */
export const isAnnounced = (
  client: string,
  table: string,
) => sql`(${sql.ref(`${table}.unlisted_since`)} is null
  and ${isRecent(`${table}.changed_at`)} and exists (
    select from fulfilment.return_merchandise_authorization_items n
    where n.client = ${anyClient(client)}
      and n.return_merchandise_authorization_id = ${sql.ref(`${table}.id`)}
      and n.unlisted_since is null and n.return_item_id is null))`;

/** SQL: true if a resource is to be read again, and the service knows it. */
const isToBeRead = (client: string, stream: string, id: RawBuilder<unknown>) => sql`exists (
  select from sync.waiting_reads w
  where w.client = ${anyClient(client)} and w.resource = ${stream} and w.id = ${id}
    and w.reason <> 'not_found')`;

/**
 * SQL: the orders of resources in quarantine, by id or by number. They are read again until they
 * can be stored.
 */
const selectQuarantined = (client: string, cutoff: RawBuilder<unknown>) => sql`
  select q.external_order_number as number, ${findQuarantinedOrder(client)} as order_id
  from sync.quarantine q
  where q.client = ${anyClient(client)} and q.last_seen_at >= ${cutoff}`;
