import { type Kysely, type RawBuilder, sql, type Transaction } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';
import { anyClient } from '../../db/values.ts';
import { appendChanges } from '../../pull/sql/feed.ts';
import { maskDocuments } from './mask-rows.ts';
import { maskOutboxRows } from './outbox-rows.ts';

/**
 * Finds the other clients that no worker has any more: for two days none pushed for them, started
 * or skipped a job of them. A client whose job prune is paused keeps its data.
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

/** Maximum number of rows or documents that one step looks at. */
const searchSize = 2_000;

/**
 * SQL: true if one of these orders is stored and not erased. What belongs to such an order is
 * erased with it, and not by its own age: something of the order may be to come.
 * @param orderIds a query of ids
 */
const isOfKeptOrder = (client: string, orderIds: RawBuilder<unknown>) => sql<boolean>`exists (
  select from (${orderIds}) c (id)
  join fulfilment.orders k on k.client = ${anyClient(client)} and k.id = c.id
  where not exists (
    select from sync.erasures e
    where e.client = ${anyClient(client)} and e.entity = 'orders' and e.id = k.id))`;

/** SQL: the ids of the orders that may belong to an outbox row o. */
const selectOrdersOfRow = (client: string) => sql`
  select n.id
  from fulfilment.orders n
  where n.client = ${anyClient(client)} and n.external_order_number = o.reference
    and o.family = 'order'
  union all
  select t.target_id
  from sync.outbox_targets t
  where t.outbox_id = o.id
  union all
  select sync.read_document_id(o.result -> 'orderId')
  union all
  select s.order_id
  from fulfilment.shipments s
  where s.client = ${anyClient(client)} and s.id = case
    when o.family = 'return' or o.kind = 'return_label.create'
      then sync.read_document_id(o.payload -> 'shipmentId') end
  union all
  select s.order_id
  from fulfilment.return_merchandise_authorizations a
  join fulfilment.shipments s on s.client = ${anyClient(client)} and s.id = a.shipment_id
  where a.client = ${anyClient(client)} and a.external_reference = o.reference
    and o.family = 'return'`;

/** The place of an outbox row in the order of their ends. */
export interface RowPosition {
  readonly finishedAt: string;
  readonly id: number;
}

/** The position before all rows. */
export const firstRow: RowPosition = { finishedAt: '-infinity', id: 0 };

/**
 * The number of rows that a step masked, and where the next step begins; null if there is no next
 * step.
 */
export interface MaskedPart<Position = number> {
  readonly rows: number;
  readonly next: Position | null;
}

/** Chooses the aged rows of a step, at most `limit`, and finds where the next step begins. */
function chooseAged<Row extends { readonly isAged: boolean }>(rows: readonly Row[], limit: number) {
  const chosen = rows.filter(({ isAged }) => isAged).slice(0, limit);
  const last = rows.length < searchSize ? undefined : rows.at(-1);
  return { chosen, next: chosen.length < limit ? last : chosen.at(-1) };
}

/**
 * Removes personal data from outbox rows of orders and returns that ended before a number of days,
 * and from their documents. Rows of a stored order are erased with it; rows stay while another row
 * of their lane is open or dead.
 */
export async function maskAgedRows(
  trx: Transaction<DB>,
  { client, by, days, limit }: AgedStep,
  after: RowPosition,
): Promise<MaskedPart<RowPosition>> {
  const { rows } = await sql<RowPosition & { readonly isAged: boolean }>`
    with o as materialized (
      select *
      from fulfilment.outbox o
      where (o.finished_at, o.id) > (${after.finishedAt}::timestamptz, ${after.id})
        and o.finished_at < now() - make_interval(days => ${days})
        and o.client = ${anyClient(client)} and o.family in ('order', 'return')
          and o.status in ('done', 'cancelled')
        and o.erased_at is null
      order by o.finished_at, o.id
      limit ${searchSize}
    )
    select o.id, o.finished_at::text as "finishedAt",
      not ${isOfKeptOrder(client, selectOrdersOfRow(client))}
      and not exists (
        select from fulfilment.outbox l
        where l.client = ${anyClient(client)} and l.family = o.family and l.reference = o.reference
          and l.status in ('pending', 'sending', 'unknown', 'dead')) as "isAged"
    from o
    order by o.finished_at, o.id`.execute(trx);
  const { chosen, next } = chooseAged(rows, limit);
  const { rows: locked } = await sql<{ id: number }>`
    select o.id
    from fulfilment.outbox o
    where o.id = any(${chosen.map(({ id }) => id)}::bigint[])
    order by o.id
    for update skip locked`.execute(trx);
  const ids = locked.map(({ id }) => id);
  const masked = await maskOutboxRows(trx, by, ids);
  await appendChanges(trx, client, await maskDocuments(trx, client, ids));
  return { rows: masked.rows, next: next ?? null };
}

/**
 * Masks documents after `afterId` that are older than a number of days. They outlive their outbox
 * rows. Those of a stored order are erased with it.
 */
export async function maskAgedDocuments(
  trx: Transaction<DB>,
  { client, days, limit }: AgedStep,
  afterId: number,
): Promise<MaskedPart> {
  const orderIds = sql`
    select d.order_id
    union all
    select n.id
    from fulfilment.orders n
    where n.client = ${anyClient(client)} and n.external_order_number = d.reference
    union all
    select s.order_id
    from fulfilment.shipments s
    where s.client = ${anyClient(client)} and s.id = d.shipment_id`;
  const { rows } = await sql<{ readonly id: number; readonly isAged: boolean }>`
    with d as materialized (
      select d.id, d.reference, d.order_id, d.shipment_id
      from fulfilment.documents d
      where d.client = ${anyClient(client)}
        and d.created_at < now() - make_interval(days => ${days})
        and d.erased_at is null and d.id > ${afterId}
      order by d.id
      limit ${searchSize}
    )
    select d.id, not ${isOfKeptOrder(client, orderIds)} as "isAged"
    from d
    order by d.id`.execute(trx);
  const { chosen, next } = chooseAged(rows, limit);
  const changes = await maskDocuments(
    trx,
    client,
    chosen.map(({ id }) => id),
  );
  await appendChanges(trx, client, changes);
  return { rows: changes.length, next: next?.id ?? null };
}
