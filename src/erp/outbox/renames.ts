import { type Kysely, sql } from 'kysely';
import { anyId } from '../connection/values.ts';
import type { DB } from '../generated/tables.ts';
import { claimSpan, type HeldClaim } from './held-claims.ts';
import { unfinishedStatuses } from './lanes.ts';

/** A row that another row waits for, or that prevents it. */
export interface OtherRow {
  readonly id: number;
  readonly kind: string;
  readonly reference: string;
  readonly status: string;
}

/** The row whose order, number or lane is asked about. */
interface RowOfOrder {
  readonly id: number;
  readonly client: string;
  readonly reference: string;
}

/** The order that a request is about. */
export interface PushTarget {
  readonly id: number;
  /** Names of the members that the order has before the request. */
  readonly present?: Iterable<string>;
}

/**
 * Records, as `stampSent` does, that the service may carry the row out from now on, and stores the order that the
 * request is about. The members that a first attempt found are kept: a later one may no longer find them.
 * @returns false if another worker has taken the row over: then nothing may be sent
 */
export async function stampSentFor(db: Kysely<DB>, { id, claimNo }: HeldClaim, target: PushTarget): Promise<boolean> {
  const { rows } = await sql<{ outbox_id: number }>`
    with stamped as (
      update fulfilment.outbox o
      set sent_at = statement_timestamp(), lease_until = statement_timestamp() + ${claimSpan}
      where o.id = ${id} and o.claim_no = ${claimNo} and o.status = 'sending'
        and o.lease_until > statement_timestamp()
      returning o.id
    )
    insert into sync.outbox_targets as t (outbox_id, target_id, present)
    select id, ${target.id}::bigint, ${[...(target.present ?? [])]}::text[]
    from stamped
    on conflict (outbox_id) do update set target_id = excluded.target_id,
      present = case when t.target_id = excluded.target_id and cardinality(t.present) > 0 then t.present
                     else excluded.present end
    returning t.outbox_id`.execute(db);
  return rows.length > 0;
}

/** Returns the id of the order that a row was first sent for; null if nothing was sent. */
export async function findSentTarget(db: Kysely<DB>, rowId: number): Promise<number | null> {
  const found = await db
    .selectFrom('sync.outbox_targets')
    .select('target_id')
    .where('outbox_id', '=', rowId)
    .executeTakeFirst();
  return found?.target_id ?? null;
}

/** Returns the names of the members that the order of a row had before the row was first sent. */
export async function readPresentMembers(db: Kysely<DB>, rowId: number): Promise<readonly string[]> {
  const found = await db
    .selectFrom('sync.outbox_targets')
    .select('present')
    .where('outbox_id', '=', rowId)
    .executeTakeFirst();
  return found?.present ?? [];
}

/**
 * Returns the ids of the orders that rows are about, by row id. The order is the one that the row was sent for. If the
 * row was not sent, it is the one that the tables hold for the reference, or the result of an earlier row of the lane.
 */
export async function findTargetIds(db: Kysely<DB>, rowIds: readonly number[]): Promise<ReadonlyMap<number, number>> {
  const { rows } = await sql<{ id: number; target: number }>`
    select o.id, f.target
    from fulfilment.outbox o
    cross join lateral (
      select coalesce((
        select t.target_id
        from sync.outbox_targets t
        where t.outbox_id = o.id
      ), (
        select max(r.id)
        from fulfilment.orders r
        where r.client = o.client and r.external_order_number = o.reference and r.unlisted_since is null
      ), (
        select (b.result ->> 'orderId')::bigint
        from fulfilment.outbox b
        where b.client = o.client and b.reference = o.reference and b.family = o.family and b.id < o.id
          and b.status = 'done' and b.result ->> 'orderId' ~ '^[0-9]{1,15}$'
        order by b.id desc
        limit 1
      )) as target
    ) f
    where o.id = any(${rowIds}::bigint[]) and f.target is not null`.execute(db);
  return new Map(rows.map(({ id, target }) => [id, target]));
}

/** An `order.rename` that was sent for an order, with the number that the order had and the one it was to get. */
interface Rename {
  readonly orderId: number;
  readonly from: string;
  readonly to: string;
  readonly status: string;
}

/** Finds the `order.rename` rows that were sent for these orders, whatever their outcome is, in the order of their ids. */
export async function findRenames(db: Kysely<DB>, client: string, orderIds: readonly number[]): Promise<Rename[]> {
  return db
    .selectFrom('sync.outbox_targets as t')
    .innerJoin('fulfilment.outbox as o', 'o.id', 't.outbox_id')
    .select([
      't.target_id as orderId',
      'o.reference as from',
      sql<string>`o.payload ->> 'externalOrderNumber'`.as('to'),
      'o.status',
    ])
    .where('o.client', '=', client)
    .where('o.kind', '=', 'order.rename')
    .where('t.target_id', '=', anyId(orderIds))
    .orderBy('o.id')
    .execute();
}

/**
 * Finds an unfinished `order.rename` that gives an order the number of this row's lane. A rename waits only for earlier
 * renames, so that two renames never wait for each other.
 */
export async function findRenameTo(
  db: Kysely<DB>,
  { id, client, reference }: RowOfOrder,
  kind: string,
): Promise<OtherRow | null> {
  // One part for each partial index: the table may hold many rows of other kinds.
  const select = sql`
      select o.id, o.kind, o.reference, o.status
      from fulfilment.outbox o
      where o.client = ${client} and o.kind = 'order.rename' and o.payload ->> 'externalOrderNumber' = ${reference}
        and (o.id < ${id} or ${kind}::text <> 'order.rename')`;
  const { rows } = await sql<OtherRow>`
    select *
    from (${select} and o.status = 'pending'
      union all
      ${select} and o.status in ('sending', 'unknown')
      union all
      ${select} and o.status = 'dead'
    ) r
    order by id
    limit 1`.execute(db);
  return rows[0] ?? null;
}

/** Returns the number that the last `order.rename` of this row's lane gave the order; null if there is none. */
export async function findNewNumber(db: Kysely<DB>, { id, client, reference }: RowOfOrder): Promise<string | null> {
  const found = await db
    .selectFrom('fulfilment.outbox as o')
    .select(sql<string | null>`o.result ->> 'externalOrderNumber'`.as('number'))
    .where('o.client', '=', client)
    .where('o.reference', '=', reference)
    .where('o.kind', '=', 'order.rename')
    .where('o.status', '=', 'done')
    .where('o.id', '<', id)
    .orderBy('o.id', 'desc')
    .limit(1)
    .executeTakeFirst();
  return found?.number ?? null;
}

/**
 * Finds the first unfinished row that uses a number which a rename is to give: an `order.create`, or an earlier
 * `order.rename` that frees the number.
 */
export async function findUserOfNumber(
  db: Kysely<DB>,
  { id, client }: Pick<RowOfOrder, 'id' | 'client'>,
  number: string,
): Promise<OtherRow | null> {
  const found = await db
    .selectFrom('fulfilment.outbox as o')
    .select(['o.id', 'o.kind', 'o.reference', 'o.status'])
    .where('o.client', '=', client)
    .where('o.family', '=', 'order')
    .where('o.reference', '=', number)
    .where(sql<boolean>`o.status in ${unfinishedStatuses}`)
    .where(sql<boolean>`(o.kind in ('order.create', 'order.replace') or o.kind = 'order.rename' and o.id < ${id})`)
    .orderBy('o.id')
    .limit(1)
    .executeTakeFirst();
  return found ?? null;
}
