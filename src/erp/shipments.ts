import { type Kysely, sql, type Transaction } from 'kysely';
import type { Change } from './feed.ts';
import type { DB } from './rows.ts';

export interface OpenShipment {
  readonly id: number;
  readonly orderId: number | null;
  /** Whether its turn to be read by id has come; lists are asked for it regardless. */
  readonly readDue: boolean;
}

/**
 * Shipments that are open here but were not in `listed`, a complete list of the open ones: they moved on, or lists do
 * not show them. Longest waiting for a read by id first.
 */
export async function findUnlistedOpen(
  db: Kysely<DB>,
  client: string,
  listed: readonly number[],
): Promise<OpenShipment[]> {
  const { rows } = await sql<OpenShipment>`
    select s.id, s.order_id as "orderId", coalesce(r.next_try_at <= now(), true) as "readDue"
    from fulfilment.shipments s
    left join sync.rereads r on r.client = s.client and r.stream = 'shipments' and r.id = s.id
    where s.client = ${client} and s.status is distinct from 'SHIPPED'
      and not exists (select from unnest(${listed}::bigint[]) as l (id) where l.id = s.id)
    order by r.next_try_at nulls first, s.id`.execute(db);
  return rows;
}

/** Of these ids, those that are still open here. */
export async function stillOpen(db: Kysely<DB>, client: string, ids: readonly number[]): Promise<number[]> {
  const { rows } = await sql<{ id: number }>`
    select id from fulfilment.shipments
    where client = ${client} and id = any(${ids}::bigint[]) and status is distinct from 'SHIPPED'`.execute(db);
  return rows.map(({ id }) => id);
}

/** Marks shipments that the service says it does not know, unless a newer reading found them. */
export async function markUnlisted(
  trx: Transaction<DB>,
  client: string,
  ids: readonly number[],
  readNo: number,
): Promise<Change[]> {
  if (ids.length === 0) return [];
  const { rows } = await sql<{ id: number }>`
    update fulfilment.shipments set unlisted_since = now(), read_no = ${readNo}
    where client = ${client} and id = any(${ids}::bigint[]) and unlisted_since is null and read_no < ${readNo}
    returning id`.execute(trx);
  return rows.map(({ id }) => ({ entity: 'shipments', id, operation: 'unlisted' }));
}

const asChanges = (rows: readonly { id: number }[]): Change[] =>
  rows.map(({ id }) => ({ entity: 'shipments', id, operation: 'updated' }));

/** Fills order numbers that are missing, at most `limit`; by state, so no order of arrival can leave one out. */
export async function fillOrderNumbers(trx: Transaction<DB>, client: string, limit: number): Promise<Change[]> {
  const { rows } = await sql<{ id: number }>`
    update fulfilment.shipments s set external_order_number = m.external_order_number, changed_at = now()
    from (
      select s.id, o.external_order_number from fulfilment.shipments s
      join fulfilment.orders o on o.client = s.client and o.id = s.order_id
      where s.client = ${client} and s.external_order_number is null and s.order_id is not null
        and o.external_order_number is not null
      order by s.id limit ${limit}
      -- Locks the orders too: a number that is being changed is waited for, so an old one cannot be filled in after it.
      for no key update of s for share of o
    ) m
    where s.client = ${client} and s.id = m.id
    returning s.id`.execute(trx);
  return asChanges(rows);
}

/** Carries changed order numbers of these orders over to their shipments. */
export async function renameOrderNumbers(
  trx: Transaction<DB>,
  client: string,
  orderIds: readonly number[],
): Promise<Change[]> {
  if (orderIds.length === 0) return [];
  const { rows } = await sql<{ id: number }>`
    update fulfilment.shipments s set external_order_number = o.external_order_number, changed_at = now()
    from fulfilment.orders o
    where o.client = ${client} and o.id = any(${orderIds}::bigint[]) and s.client = o.client and s.order_id = o.id
      and s.external_order_number is not null and s.external_order_number is distinct from o.external_order_number
    returning s.id`.execute(trx);
  return asChanges(rows);
}

/** Orders that shipments name but that are not stored here, as far as their next read is due; at most `limit`. */
export async function findMissingOrders(db: Kysely<DB>, client: string, limit: number | null): Promise<number[]> {
  const { rows } = await sql<{ id: number }>`
    select s.order_id as id from fulfilment.shipments s
    left join sync.rereads r on r.client = s.client and r.stream = 'orders' and r.id = s.order_id
    where s.client = ${client} and s.external_order_number is null and s.order_id is not null
      and not exists (select from fulfilment.orders o where o.client = s.client and o.id = s.order_id)
      and (r.next_try_at is null or r.next_try_at <= now())
    group by s.order_id
    order by min(r.next_try_at) nulls first, s.order_id
    limit ${limit}`.execute(db);
  return rows.map(({ id }) => id);
}
