import { type Kysely, type RawBuilder, sql, type Transaction } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';
import { anyClient } from '../../db/values.ts';
import { recordErasures } from '../../pull/sql/erasures.ts';
import { appendChanges, type Change } from '../../pull/sql/feed.ts';
import { tableRef } from '../../pull/sql/mirror-tables.ts';
import { type AgedStep, isAnnounced } from './aged-orders.ts';
import { lockOrderStreams, lockParcelWriters } from './erase-locks.ts';
import { maskOutboxRows } from './order-outbox.ts';
import { maskById, maskReturnItems } from './order-tables.ts';

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

/**
 * SQL: true if one of these orders is stored. What belongs to such an order is erased with it, and
 * not by its own age: something of the order may be to come.
 * @param orderIds a query of ids
 */
const isOfOrder = (client: string, orderIds: RawBuilder<unknown>) => sql`exists (
  select from (${orderIds}) c (id)
  join fulfilment.orders k on k.client = ${anyClient(client)} and k.id = c.id)`;

/** SQL: as `isOfOrder`, but not of an erased order: a row of it may be newer than its erasure. */
const isOfKeptOrder = (client: string, orderIds: RawBuilder<unknown>) => sql`exists (
  select from (${orderIds}) c (id)
  join fulfilment.orders k on k.client = ${anyClient(client)} and k.id = c.id
  where not exists (
    select from sync.erasures e
    where e.client = ${anyClient(client)} and e.entity = 'orders' and e.id = k.id))`;

/** SQL: the ids of the orders that may belong to an outbox row t. */
const selectOrdersOfRow = (client: string) => sql`
  select n.id
  from fulfilment.orders n
  where n.client = ${anyClient(client)} and n.external_order_number = t.reference
    and t.family = 'order'
  union all
  select g.target_id
  from sync.outbox_targets g
  where g.outbox_id = t.id
  union all
  select sync.read_document_id(t.result -> 'orderId')
  union all
  select s.order_id
  from fulfilment.shipments s
  where s.client = ${anyClient(client)} and s.id = case
    when t.family = 'return' or t.kind = 'return_label.create'
      then sync.read_document_id(t.payload -> 'shipmentId') end
  union all
  select s.order_id
  from fulfilment.return_merchandise_authorizations a
  join fulfilment.shipments s on s.client = ${anyClient(client)} and s.id = a.shipment_id
  where a.client = ${anyClient(client)} and a.external_reference = t.reference
    and t.family = 'return'`;

/** Rows with personal data that are masked by their own age. */
interface AgedTable {
  /** SQL: true for the rows t of a part. */
  readonly where: (step: AgedStep) => RawBuilder<unknown>;
  /** SQL: true for rows t of a part that keep their data. */
  readonly isKept: (step: AgedStep) => RawBuilder<unknown>;
  /** Masks rows, and returns their number. */
  readonly mask: (trx: Transaction<DB>, step: AgedStep, ids: readonly number[]) => Promise<number>;
}

const cutoff = ({ days }: AgedStep) => sql`now() - make_interval(days => ${days})`;

/** SQL: true if a return t has an erasure of its own. */
const isErased = ({ client }: AgedStep, table: string) => sql`exists (
  select from sync.erasures e
  where e.client = ${anyClient(client)} and e.entity = ${table} and e.id = t.id)`;

/** The tables whose rows are masked by their own age, in the order in which `prune` does it. */
const agedTables = {
  /** Rows of orders and returns that ended, unless another row of their lane is open or dead. */
  outbox: {
    where: (step) => sql`t.finished_at < ${cutoff(step)} and t.family in ('order', 'return')
      and t.status in ('done', 'cancelled') and t.erased_at is null`,
    isKept: ({ client }) => sql`${isOfKeptOrder(client, selectOrdersOfRow(client))} or exists (
      select from fulfilment.outbox l
      where l.client = ${anyClient(client)} and l.family = t.family and l.reference = t.reference
        and l.status in ('pending', 'sending', 'unknown', 'dead'))`,
    mask: maskAgedOutbox,
  },
  /** Documents outlive their outbox rows. */
  documents: {
    where: (step) => sql`t.created_at < ${cutoff(step)} and t.erased_at is null`,
    isKept: ({ client }) =>
      isOfKeptOrder(
        client,
        sql`
      select t.order_id
      union all
      select n.id
      from fulfilment.orders n
      where n.client = ${anyClient(client)} and n.external_order_number = t.reference
      union all
      select s.order_id
      from fulfilment.shipments s
      where s.client = ${anyClient(client)} and s.id = t.shipment_id`,
      ),
    mask: async (trx, { client }, ids) => {
      const changes = await maskById(trx, client, 'documents', ids);
      await appendChanges(trx, client, changes);
      return changes.length;
    },
  },
  return_items: {
    where: () => sql`true`,
    isKept: (step) => sql`${isErased(step, 'return_items')}
      or coalesce(sync.real_day(t.processed_on), t.changed_at::date) >= ${cutoff(step)}
      or ${isOfOrder(step.client, sql`select t.order_id`)}`,
    mask: (trx, step, ids) => maskReturns(trx, step, 'return_items', ids),
  },
  return_merchandise_authorizations: {
    where: () => sql`true`,
    isKept: (step) => sql`${isErased(step, 'return_merchandise_authorizations')}
      or coalesce(sync.real_day(t.modified_on), sync.real_day(t.created_on), t.changed_at::date)
        >= ${cutoff(step)}
      or ${isOfOrder(
        step.client,
        sql`
        select s.order_id
        from fulfilment.shipments s
        where s.client = ${anyClient(step.client)} and s.id = t.shipment_id`,
      )}
      or ${isAnnounced(step.client, 't')}`,
    mask: (trx, step, ids) => maskReturns(trx, step, 'return_merchandise_authorizations', ids),
  },
} as const satisfies Readonly<Record<string, AgedTable>>;

export type AgedTableName = keyof typeof agedTables;
export const agedTableNames = Object.keys(agedTables) as AgedTableName[];

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

  const isMirror = name !== 'outbox' && name !== 'documents';
  if (isMirror) {
    await lockParcelWriters(trx, step.client);
    await lockOrderStreams(trx, step.client);
  }
  // A reading may have changed them until now.
  const { ids, next } = isMirror ? await findAged(trx, step, name, afterId) : first;
  return { rows: await agedTables[name].mask(trx, step, ids), next };
}

async function findAged(
  trx: Transaction<DB>,
  step: AgedStep,
  name: AgedTableName,
  afterId: number,
): Promise<{ readonly ids: readonly number[]; readonly next: number | null }> {
  const { where, isKept }: AgedTable = agedTables[name];
  const { rows } = await sql<{ id: number; isAged: boolean }>`
    with t as materialized (
      select *
      from ${tableRef(name)} t
      where t.client = ${anyClient(step.client)} and t.id > ${afterId} and ${where(step)}
      order by t.id
      limit ${searchSize}
    )
    select t.id, not coalesce(${isKept(step)}, true) as "isAged"
    from t
    order by t.id`.execute(trx);

  const ids = rows.flatMap(({ id, isAged }) => (isAged ? [id] : [])).slice(0, step.limit);
  const last = rows.length < searchSize ? null : (rows.at(-1)?.id ?? null);
  return { ids, next: ids.length < step.limit ? last : (ids.at(-1) ?? null) };
}

/** Masks outbox rows that nobody has locked, and their documents. */
async function maskAgedOutbox(
  trx: Transaction<DB>,
  { client, by }: AgedStep,
  ids: readonly number[],
): Promise<number> {
  const { rows } = await sql<{ id: number }>`
    select o.id
    from fulfilment.outbox o
    where o.id = any(${ids}::bigint[])
    order by o.id
    for update skip locked`.execute(trx);
  const locked = rows.map(({ id }) => id);

  const masked = await maskOutboxRows(trx, by, locked);
  await appendChanges(trx, client, await maskById(trx, client, 'documents', locked));
  return masked.rows;
}

/** Masks returns, and records that, so that they stay masked. */
async function maskReturns(
  trx: Transaction<DB>,
  { client, by }: AgedStep,
  entity: 'return_items' | 'return_merchandise_authorizations',
  ids: readonly number[],
): Promise<number> {
  const erasures = ids.map((id) => ({ entity, id, number: null }));
  await recordErasures(trx, client, by, erasures);

  const changes: Change[] = await maskById(trx, client, entity, ids);
  const items = entity === 'return_items' ? [] : await maskReturnItems(trx, client, ids);
  await appendChanges(trx, client, [...changes, ...items]);
  return ids.length;
}
