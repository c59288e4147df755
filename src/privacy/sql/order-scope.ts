/** What belongs to an order: its numbers, its outbox rows, and the locks of an erasure. */

import { sql, type Transaction } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';
import { lockName } from '../../db/transaction.ts';
import { anyClient } from '../../db/values.ts';
import { lockStream } from '../../pull/sql/stream-transaction.ts';

/**
 * The streams that hold resources of an order, in the order in which settlements of pushes lock
 * them.
 */
const orderStreams = ['orders', 'return-items', 'return-merchandise-authorizations', 'shipments'];

/** Jobs that write packages. They lock no stream, only their lease. */
const parcelJobs = ['pull-parcels', 'track-trace'];

/** Lets no other erasure, and no job that writes packages, commit until the transaction ends. */
export async function lockParcelWriters(trx: Transaction<DB>, client: string): Promise<void> {
  await lockName(trx, 'erase');
  await sql`
    select from sync.leases l
    where l.client = ${anyClient(client)} and l.name = any(${parcelJobs}::text[])
    order by l.name
    for update`.execute(trx);
}

/** Lets no reading and no settlement write a resource of an order until the transaction ends. */
export async function lockOrderStreams(trx: Transaction<DB>, client: string): Promise<void> {
  for (const stream of orderStreams) await lockStream({ trx, client, stream });
}

/** What the rows of some orders of one client are found by. */
export interface OrderScope {
  readonly client: string;
  readonly numbers: readonly OrderNumber[];
  readonly orderIds: readonly number[];
  readonly shipmentIds: readonly number[];
  /** The references of announced returns, which are those of their outbox rows. */
  readonly returnReferences: readonly string[];
}

/** Reads what belongs to these orders. */
export async function readOrderScope(
  trx: Transaction<DB>,
  client: string,
  given: readonly OrderToErase[],
): Promise<OrderScope> {
  const orderIds = [...new Set(given.flatMap(({ id }) => (id === null ? [] : [id])))];

  const { rows } = await sql<{ id: number; returns: string[] }>`
    select s.id, array(
      select a.external_reference
      from fulfilment.return_merchandise_authorizations a
      where a.client = ${anyClient(client)} and a.shipment_id = s.id
        and a.external_reference is not null) as returns
    from fulfilment.shipments s
    where s.client = ${anyClient(client)} and s.order_id = any(${orderIds}::bigint[])`.execute(trx);

  return {
    client,
    numbers: await readNumbers(trx, client, given),
    orderIds,
    shipmentIds: rows.map(({ id }) => id),
    returnReferences: rows.flatMap(({ returns }) => returns),
  };
}

/** An outbox row of an order. */
export interface OrderOutboxRow {
  readonly id: number;
  readonly kind: string;
  readonly reference: string;
  readonly status: string;
  /** True if the service may have carried it out. */
  readonly mayBeCarriedOut: boolean;
}

/**
 * Finds the outbox rows of orders, and locks them until the transaction ends: those with a number
 * of the order, unless they name or mean another order, and the announcements of returns.
 */
export async function lockOrderRows(
  trx: Transaction<DB>,
  scope: OrderScope,
): Promise<OrderOutboxRow[]> {
  const { client, numbers, shipmentIds, returnReferences } = scope;

  const { rows } = await sql<OrderOutboxRow>`
    with named as (
      select *
      from unnest(${numbers.map(({ number }) => number)}::text[],
        ${numbers.map(({ id }) => id)}::bigint[],
        ${numbers.map(({ after }) => after)}::bigint[],
          ${numbers.map(({ before }) => before)}::bigint[])
        as n (number, order_id, after, before)
    ), found as materialized (
      select o.id
      from named n
      join fulfilment.outbox o on o.client = ${anyClient(client)} and o.reference = n.number
        and o.family = 'order'
      left join sync.outbox_targets t on t.outbox_id = o.id
      cross join lateral (values (coalesce(t.target_id::text, o.result ->> 'orderId')))
        as a (order_id)
      where a.order_id = n.order_id::text or (a.order_id is null
        and o.id > coalesce(n.after, 0) and (n.before is null or o.id < n.before))
      union
      select o.id
      from fulfilment.outbox o
      where o.client = ${anyClient(client)} and o.family = 'return'
        and o.reference = any(${returnReferences}::text[])
      union
      select o.id
      from fulfilment.outbox o
      where o.client = ${anyClient(client)} and o.family = 'return'
        and o.payload ->> 'shipmentId' = any(${shipmentIds.map(String)}::text[])
    )
    select o.id, o.kind, o.reference, o.status, o.written_at is not null as "mayBeCarriedOut"
    from fulfilment.outbox o
    where o.id in (select id from found)
    order by o.id
    for update`.execute(trx);
  return rows;
}

/**
 * An order whose personal data is erased. The id is null if the service never had it, as far as is
 * known here.
 */
export interface OrderToErase {
  readonly id: number | null;
  readonly number: string;
}

/**
 * A number of an order, also a former one, and the outbox rows that mean this order by it although
 * they name no id: those after and before these rows. Other orders may have had the number before,
 * or may have it now.
 */
interface OrderNumber extends OrderToErase {
  /** True if the order has the number now. */
  readonly isPresent: boolean;
  readonly after: number | null;
  readonly before: number | null;
}

/** SQL: the id of the order that an outbox row names, as text. */
const namedId = sql`coalesce(t.target_id::text, o.result ->> 'orderId')`;

/**
 * Returns the numbers of the orders: those given, those stored now, and those that renames gave or
 * took. Rows that name an id tell which order had a number until when. An order.create after them
 * begins another order.
 */
async function readNumbers(
  trx: Transaction<DB>,
  client: string,
  given: readonly OrderToErase[],
): Promise<readonly OrderNumber[]> {
  const ids = given.map(({ id }) => id);

  const { rows } = await sql<OrderNumber>`
    with given as materialized (
      select *
      from unnest(${ids}::bigint[], ${given.map(({ number }) => number)}::text[]) as g (id, number)
    ), stored as materialized (
      select o.id, o.external_order_number as number
      from fulfilment.orders o
      where o.client = ${anyClient(client)} and o.id = any(${ids}::bigint[])
        and o.external_order_number is not null
    ), renames as materialized (
      select r.id, t.target_id as order_id, r.reference as former,
        r.payload ->> 'externalOrderNumber' as taken
      from sync.outbox_targets t
      join fulfilment.outbox r on r.id = t.outbox_id
      left join stored s on s.id = t.target_id
      where t.target_id = any(${ids}::bigint[]) and r.client = ${anyClient(client)}
        and (r.status = 'done' or r.payload ->> 'externalOrderNumber' = s.number)
    ), named as (
      select id, number
      from given
      union
      select id, number
      from stored
      union
      select r.order_id, n.number
      from renames r
      cross join lateral (values (r.former), (r.taken)) as n (number)
      where n.number is not null
    ), placed as materialized (
      select n.id, n.number, n.number is not distinct from coalesce(s.number, (
          select r.taken
          from renames r
          where r.order_id = n.id
          order by r.id desc
          limit 1), n.number) as is_present,
        (select min(r.id) from renames r where r.order_id = n.id and r.taken = n.number)
          as taken_by, a.first, a.last
      from named n
      left join stored s on s.id = n.id
      left join lateral (
        select min(o.id) as first, max(o.id) as last
        from fulfilment.outbox o
        left join sync.outbox_targets t on t.outbox_id = o.id
        where o.client = ${anyClient(client)} and o.reference = n.number and o.family = 'order'
          and ${namedId} = coalesce(n.id::text, ${namedId})
          -- A follow-up may come behind rows of another order that got the number.
          and (o.kind <> 'order_attachment.create' or t.outbox_id is null)) a on true
    )
    select p.id, p.number, p.is_present as "isPresent", ${findAfter(client)} as after,
      ${findBefore(client)} as before
    from placed p`.execute(trx);
  return rows;
}

/** SQL: the outbox row after which a number means the order; null if it always did. */
const findAfter = (client: string) => sql`case
  when p.id is null then p.last
  when p.taken_by is not null and (p.first is null or p.first > p.taken_by) then p.taken_by
  when exists (
    select from fulfilment.outbox o
    left join sync.outbox_targets t on t.outbox_id = o.id
    where o.client = ${anyClient(client)} and o.reference = p.number and o.family = 'order'
      and o.id < p.first
      and ${namedId} <> p.id::text) then p.first - 1 end`;

/** SQL: the outbox row from which a former number means another order; null if it does not. */
const findBefore = (client: string) => sql`case when not p.is_present then coalesce((
  select min(c.id)
  from fulfilment.outbox c
  where c.client = ${anyClient(client)} and c.reference = p.number
    and c.kind in ('order.create', 'order.replace')
    and c.id > coalesce(greatest(p.last, p.taken_by), 0)), (
  select coalesce(greatest(p.last, p.taken_by), 0) + 1
  from fulfilment.orders o
  where o.client = ${anyClient(client)} and o.external_order_number = p.number and o.id <> p.id
  limit 1)) end`;
