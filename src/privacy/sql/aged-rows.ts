import { type Kysely, type RawBuilder, sql, type Transaction } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';
import { anyClient } from '../../db/values.ts';
import { findLinkedOrder, recordErasures } from '../../pull/sql/erasures.ts';
import { appendChanges } from '../../pull/sql/feed.ts';
import { tableRef } from '../../pull/sql/mirror-tables.ts';
import { type AgedStep, isAnnounced } from './aged-orders.ts';
import { isAny, maskOutboxRows, maskRows, type Place } from './mask-rows.ts';
import { lockOrderStreams, lockParcelWriters } from './order-scope.ts';

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

/** Maximum number of rows that one step looks at. */
const searchSize = 2_000;

/** SQL: true for a resource with an erasure. */
const isErased = (client: string, entity: string, id: string) => sql`exists (
  select from sync.erasures e
  where e.client = ${anyClient(client)} and e.entity = ${entity} and e.id = ${sql.ref(id)})`;

/**
 * SQL: true if one of these orders is stored. What belongs to such an order is erased with it, and
 * not by its own age: something of the order may be to come.
 * @param orderIds a query of ids
 * @param kind `kept`: erased orders do not count; a row of one may be newer than its erasure
 */
const isOfOrder = (client: string, orderIds: RawBuilder<unknown>, kind: 'stored' | 'kept') => sql`
  exists (
    select from (${orderIds}) c (id)
    join fulfilment.orders k on k.client = ${anyClient(client)} and k.id = c.id
    where ${kind === 'stored'} or not ${isErased(client, 'orders', 'k.id')})`;

/** SQL: the ids of the orders with the reference of a row t. */
const selectByReference = (client: string) => sql`
  select n.id
  from fulfilment.orders n
  where n.client = ${anyClient(client)} and n.external_order_number = t.reference`;

/** SQL: the id of the order of a shipment. */
const selectByShipment = (client: string, shipmentId: RawBuilder<unknown>) => sql`
  select s.order_id
  from fulfilment.shipments s
  where s.client = ${anyClient(client)} and s.id = ${shipmentId}`;

/** SQL: the id of the order of a return item t. */
const selectOrderOfReturn = (client: string) => sql`
  select coalesce(t.order_id, ${findLinkedOrder(client, 't', sql`null::bigint`)})`;

/** SQL: the ids of the orders that may belong to an outbox row t. */
const selectOrdersOfRow = (client: string) => sql`
  ${selectByReference(client)} and t.family = 'order'
  union all
  select g.target_id
  from sync.outbox_targets g
  where g.outbox_id = t.id
  union all
  select sync.read_document_id(t.result -> 'orderId')
  union all
  ${selectByShipment(
    client,
    sql`case
      when t.family = 'return' or t.kind = 'return_label.create'
        then sync.read_document_id(t.payload -> 'shipmentId') end`,
  )}
  union all
  select s.order_id
  from fulfilment.return_merchandise_authorizations a
  join fulfilment.shipments s on s.client = ${anyClient(client)} and s.id = a.shipment_id
  where a.client = ${anyClient(client)} and a.external_reference = t.reference
    and t.family = 'return'`;

/**
 * Rows with personal data that are masked by their own age, in the order in which `prune` does it.
 * SQL that is true for such rows t.
 */
const agedTables = {
  /** Rows of orders and returns that ended, unless another row of their lane is open or dead. */
  outbox: (client, cutoff) => sql`t.finished_at < ${cutoff} and t.family in ('order', 'return')
    and t.status in ('done', 'cancelled') and t.erased_at is null
    and not ${isOfOrder(client, selectOrdersOfRow(client), 'kept')} and not exists (
      select from fulfilment.outbox l
      where l.client = ${anyClient(client)} and l.family = t.family and l.reference = t.reference
        and l.status in ('pending', 'sending', 'unknown', 'dead'))`,
  /** Documents outlive their outbox rows. */
  documents: (client, cutoff) => sql`t.created_at < ${cutoff} and t.erased_at is null
    and not ${isOfOrder(
      client,
      sql`
      select t.order_id
      union all
      ${selectByReference(client)}
      union all
      ${selectByShipment(client, sql`t.shipment_id`)}`,
      'kept',
    )}`,
  return_items: (client, cutoff) => sql`
    least(sync.real_day(t.processed_on), t.changed_at::date) < ${cutoff}
    and not ${isErased(client, 'return_items', 't.id')}
    and not ${isOfOrder(client, selectOrderOfReturn(client), 'stored')}`,
  return_merchandise_authorizations: (client, cutoff) => sql`
    least(coalesce(sync.real_day(t.modified_on), sync.real_day(t.created_on)), t.changed_at::date)
      < ${cutoff}
    and not ${isErased(client, 'return_merchandise_authorizations', 't.id')}
    and not ${isOfOrder(client, selectByShipment(client, sql`t.shipment_id`), 'stored')}
    and not ${isAnnounced(client, 't')}`,
  /** What has not left is under way. */
  shipments: (client, cutoff) => sql`t.changed_at < ${cutoff}
    and (t.status = 'SHIPPED' or t.unlisted_since is not null)
    and not ${isErased(client, 'shipments', 't.id')}
    and not ${isOfOrder(client, sql`select t.order_id`, 'stored')}`,
} as const satisfies Readonly<
  Record<string, (client: string, cutoff: RawBuilder<unknown>) => RawBuilder<unknown>>
>;

export type AgedTableName = keyof typeof agedTables;
export const agedTableNames = Object.keys(agedTables) as AgedTableName[];

/** Tables whose rows belong to those of another, and the column with its id. */
const parts: Readonly<Partial<Record<AgedTableName, Readonly<Record<string, string>>>>> = {
  return_merchandise_authorizations: {
    return_merchandise_authorization_items: 'return_merchandise_authorization_id',
  },
  shipments: {
    shipment_items: 'shipment_id',
    parcels: 'shipment_id',
    track_traces: 'shipment_id',
    track_trace_events: 'shipment_id',
  },
};

/** Number of rows that a step masked, and the id after which the next one begins; null: none. */
export interface MaskedPart {
  readonly rows: number;
  readonly next: number | null;
}

/** Masks the rows of a table that are old enough, among the next ones after `afterId`. */
export async function maskAgedRows(
  trx: Transaction<DB>,
  step: AgedStep,
  name: AgedTableName,
  afterId: number,
): Promise<MaskedPart> {
  const first = await findAged(trx, step, name, afterId);
  if (first.ids.length === 0) return { rows: 0, next: first.next };
  if (name === 'outbox')
    return { rows: await maskAgedOutbox(trx, step, first.ids), next: first.next };
  if (name === 'documents')
    return {
      rows: await maskPlaces(trx, step, [[name, isAny('id', first.ids)]]),
      next: first.next,
    };

  await lockParcelWriters(trx, step.client);
  await lockOrderStreams(trx, step.client);
  // A reading may have changed them until now.
  const { ids, next } = await findAged(trx, step, name, afterId);
  // So that they stay masked.
  const erasures = ids.map((id) => ({ entity: name, id, number: null }));
  await recordErasures(trx, step.client, step.by, erasures);

  const places = Object.entries({ [name]: 'id', ...parts[name] });
  await maskPlaces(
    trx,
    step,
    places.map(([table, column]) => [table, isAny(column, ids)]),
  );
  return { rows: ids.length, next };
}

async function findAged(
  trx: Transaction<DB>,
  { client, days, limit }: AgedStep,
  name: AgedTableName,
  afterId: number,
): Promise<{ readonly ids: readonly number[]; readonly next: number | null }> {
  const isAged = agedTables[name](client, sql`now() - make_interval(days => ${days})`);
  const { rows } = await sql<{ id: number; isAged: boolean | null }>`
    with t as materialized (
      select *
      from ${tableRef(name)} t
      where t.client = ${anyClient(client)} and t.id > ${afterId}
      order by t.id
      limit ${searchSize}
    )
    select t.id, ${isAged} as "isAged"
    from t
    order by t.id`.execute(trx);

  const ids = rows.flatMap(({ id, isAged }) => (isAged ? [id] : [])).slice(0, limit);
  const last = rows.length < searchSize ? null : (rows.at(-1)?.id ?? null);
  return { ids, next: ids.length < limit ? last : (ids.at(-1) ?? null) };
}

/** Masks rows and appends that to the feed. Returns their number. */
async function maskPlaces(
  trx: Transaction<DB>,
  { client }: AgedStep,
  places: readonly Place[],
): Promise<number> {
  const { changes } = await maskRows(trx, client, places);
  await appendChanges(trx, client, changes);
  return changes.length;
}

/** Masks outbox rows that nobody has locked, and their documents. */
async function maskAgedOutbox(
  trx: Transaction<DB>,
  step: AgedStep,
  ids: readonly number[],
): Promise<number> {
  const { rows } = await sql<{ id: number }>`
    select o.id
    from fulfilment.outbox o
    where o.id = any(${ids}::bigint[])
    order by o.id
    for update skip locked`.execute(trx);
  const locked = rows.map(({ id }) => id);

  const masked = await maskOutboxRows(trx, step, locked);
  await maskPlaces(trx, step, [['documents', isAny('id', locked)]]);
  return masked.rows;
}
