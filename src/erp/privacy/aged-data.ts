import { type Kysely, sql, type Transaction } from 'kysely';
import { anyClient } from '../connection/values.ts';
import type { DB } from '../generated/tables.ts';
import { appendChanges } from '../mirror/feed.ts';
import type { OrderToErase } from './erased-numbers.ts';
import { maskDocuments } from './mask-rows.ts';
import { maskOutboxRows } from './outbox-rows.ts';

/** Days after which an order without any stored shipment counts as finished: its shipments were never read. */
const withoutShipmentDays = 365;

/**
 * Finds the other clients that no worker has any more: for two days none pushed for them, started or skipped a job of
 * them. A client whose job prune is paused keeps its data.
 */
export async function findClientsWithoutPrune(db: Kysely<DB>, client: string): Promise<string[]> {
  const { rows } = await sql<{ client: string }>`
    select c.client
    from sync.clients c
    left join lateral (
      select max(greatest(j.last_started_at, j.last_finished_at, j.last_skip_at)) as at
      from sync.jobs j
      where j.client = c.client) j on true
    where c.client <> ${client}
      and greatest(c.accepted_at, c.served_at, j.at) < now() - interval '2 days'
      and not exists (
        select from sync.pauses p
        where p.client in (c.client, '') and p.job = 'prune')
    order by c.client`.execute(db);
  return rows.map((row) => row.client);
}

/** One step of erasing aged data: at most `limit` rows that are older than `days`. */
export interface AgedStep {
  readonly client: string;
  readonly by: string;
  readonly days: number;
  readonly limit: number;
}

/**
 * Finds orders that have been finished for a number of days, among the next `limit` orders after `afterId`. An order is
 * finished if the service no longer has it, if all of its shipments are shipped, or if all of its lines are cancelled.
 * @returns the orders, the id of the last one that was looked at (null: none), and the number of those that are blocked:
 *   they are finished, but keep their data, because outbox rows of them are open or dead
 */
export async function findAgedOrders(trx: Transaction<DB>, { client, days, limit }: AgedStep, afterId: number) {
  const cutoff = sql`now() - make_interval(days => ${days})`;
  const { rows } = await sql<{ id: number; number: string; isAged: boolean; isBlocked: boolean }>`
    with part as materialized (
      select o.id, o.external_order_number, o.unlisted_since, o.changed_at,
        greatest(sync.real_day(o.ordered_on), sync.real_day(o.preferred_shipping_date))::timestamptz as placed_at
      from fulfilment.orders o
      where o.client = ${anyClient(client)} and o.id > ${afterId}
      order by o.id
      limit ${limit}
    )
    select p.id, coalesce(p.external_order_number, '') as number, coalesce(
      not exists (
        select from sync.erasures e
        where e.client = ${anyClient(client)} and e.entity = 'orders' and e.id = p.id)
      and not coalesce(s.is_open, false)
      and coalesce(p.unlisted_since, greatest(p.placed_at, s.shipped_at, r.returned_at), p.changed_at) < ${cutoff}
      and (p.unlisted_since is not null or s.is_open is not null
        or (not i.is_ordered and p.changed_at < ${cutoff})
        or coalesce(p.placed_at, p.changed_at) < ${cutoff} - make_interval(days => ${withoutShipmentDays})),
      false) as "isAged",
      exists (
        select from fulfilment.outbox b
        where b.client = ${anyClient(client)} and b.family = 'order' and b.reference = p.external_order_number
          and b.status in ('pending', 'sending', 'unknown', 'dead')) as "isBlocked"
    from part p
    left join lateral (
      select bool_or(s.status is distinct from 'SHIPPED' and s.unlisted_since is null) as is_open,
        max(coalesce(
          sync.real_time(greatest(s.shipped_on, s.ready_to_ship_on, s.ready_to_pick_on)), s.changed_at)) as shipped_at
      from fulfilment.shipments s
      where s.client = ${anyClient(client)} and s.order_id = p.id) s on true
    left join lateral (
      select max(coalesce(sync.real_day(r.processed_on)::timestamptz, r.changed_at)) as returned_at
      from fulfilment.return_items r
      where r.client = ${anyClient(client)} and r.order_id = p.id) r on true
    left join lateral (
      select coalesce(bool_or(i.quantity is distinct from 0), true) as is_ordered
      from fulfilment.order_items i
      where i.client = ${anyClient(client)} and i.order_id = p.id) i on true
    order by p.id`.execute(trx);
  const aged = rows.filter(({ isAged }) => isAged);
  return {
    lastId: rows.at(-1)?.id ?? null,
    orders: aged.filter(({ isBlocked }) => !isBlocked).map(({ id, number }): OrderToErase => ({ id, number })),
    blocked: aged.filter(({ isBlocked }) => isBlocked).length,
  };
}

/**
 * Removes personal data from outbox rows of orders and returns that were finished before a number of days, and from
 * their documents.
 * @param from the latest end of a row of the last step; null at first
 * @returns the number of rows, and `from` for the next step; null if there is no next step
 */
export async function maskAgedRows(
  trx: Transaction<DB>,
  { client, by, days, limit }: AgedStep,
  from: Date | null,
): Promise<{ readonly rows: number; readonly next: Date | null }> {
  const { rows } = await sql<{ id: number; finishedAt: Date }>`
    select o.id, o.finished_at as "finishedAt"
    from fulfilment.outbox o
    where o.finished_at >= coalesce(${from}::timestamptz, '-infinity')
      and o.finished_at < now() - make_interval(days => ${days})
      and o.client = ${anyClient(client)} and o.family in ('order', 'return') and o.status in ('done', 'cancelled')
      and o.erased_at is null
    order by o.finished_at
    limit ${limit}
    for update skip locked`.execute(trx);
  const ids = rows.map(({ id }) => id);
  const masked = await maskOutboxRows(trx, by, ids);
  await appendChanges(trx, client, await maskDocuments(trx, client, ids));
  return { rows: masked.rows, next: rows.length < limit ? null : (rows.at(-1)?.finishedAt ?? null) };
}

/** The number of rows that a step masked, and the id after which the next step begins; null if there is no next step. */
export interface MaskedPart {
  readonly rows: number;
  readonly next: number | null;
}

/** Masks documents after `afterId` that are older than a number of days. They outlive their outbox rows. */
export async function maskAgedDocuments(
  trx: Transaction<DB>,
  { client, days, limit }: AgedStep,
  afterId: number,
): Promise<MaskedPart> {
  const { rows } = await sql<{ id: number }>`
    select d.id
    from fulfilment.documents d
    where d.client = ${anyClient(client)} and d.created_at < now() - make_interval(days => ${days})
      and d.erased_at is null and d.id > ${afterId}
    order by d.id
    limit ${limit}
    for update skip locked`.execute(trx);
  const ids = rows.map(({ id }) => id);
  const changes = await maskDocuments(trx, client, ids);
  await appendChanges(trx, client, changes);
  return { rows: changes.length, next: ids.length < limit ? null : (ids.at(-1) ?? null) };
}
