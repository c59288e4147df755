import { type Kysely, sql } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';
import { anyId } from '../../db/values.ts';
import type { ClaimedRow } from './claim-rows.ts';
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

/** The order that a row was sent for, as `stampSent` stored it. */
export interface SentTarget {
  readonly id: number;
  /** Names of the members that the order had before the row was first sent. */
  readonly present: readonly string[];
}

/**
 * Returns the order that a row was sent for, or the one that a follow-up belongs to; null if none
 * is stored.
 */
export async function readSentTarget(db: Kysely<DB>, rowId: number): Promise<SentTarget | null> {
  const found = await db
    .selectFrom('sync.outbox_targets')
    .select(['target_id as id', 'present'])
    .where('outbox_id', '=', rowId)
    .executeTakeFirst();
  return found ?? null;
}

/**
 * Records that the order of a row is certainly as the row found it, or that the row has nothing
 * left to do with it. The next send of the row opens it again.
 */
export async function closeTarget(
  db: Kysely<DB>,
  { id, claimNo }: Pick<ClaimedRow, 'id' | 'claimNo'>,
): Promise<void> {
  await db
    .updateTable('sync.outbox_targets as t')
    .from('fulfilment.outbox as o')
    .set({ is_open: false })
    .whereRef('o.id', '=', 't.outbox_id')
    .where('o.id', '=', id)
    // A worker that was taken for lost must not close what another one has begun since.
    .where('o.claim_no', '=', claimNo)
    .where('o.status', '=', 'sending')
    .execute();
}

/**
 * Returns the id of the order that a row is about: the one that the row was sent for. If the row
 * was not sent, it is the one that the tables hold for the reference, or the result of an earlier
 * row of the lane. Returns null if none is known.
 */
export async function findTargetId(db: Kysely<DB>, rowId: number): Promise<number | null> {
  const { rows } = await sql<{ target: number | null }>`
    select coalesce((
        select t.target_id
        from sync.outbox_targets t
        where t.outbox_id = o.id
      ), (
        select max(r.id)
        from fulfilment.orders r
        where r.client = o.client and r.external_order_number = o.reference
          and r.unlisted_since is null
      ), (
        select (b.result ->> 'orderId')::bigint
        from fulfilment.outbox b
        where b.client = o.client and b.reference = o.reference and b.family = o.family
          and b.id < o.id
          and b.status = 'done' and b.result ->> 'orderId' ~ '^[0-9]{1,18}$'
        order by b.id desc
        limit 1
      )) as target
    from fulfilment.outbox o
    where o.id = ${rowId}`.execute(db);

  return rows[0]?.target ?? null;
}

/**
 * An `order.rename` that was sent for an order, with the number that the order had and the one it
 * was to get.
 */
interface Rename {
  readonly orderId: number;
  readonly from: string;
  readonly to: string;
  readonly status: string;
}

/**
 * Finds the `order.rename` rows that were sent for these orders, whatever their outcome is, in the
 * order of their ids.
 */
export async function findRenames(
  db: Kysely<DB>,
  client: string,
  orderIds: readonly number[],
): Promise<Rename[]> {
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
 * Finds an unfinished `order.rename` that gives an order the number of this row's lane. A rename
 * waits only for earlier renames, so that two renames never wait for each other.
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
      where o.client = ${client} and o.kind = 'order.rename'
        and o.payload ->> 'externalOrderNumber' = ${reference}
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

/**
 * Returns the number that the last `order.rename` of this row's lane gave the order; null if there
 * is none, or if a later row made another order with the number of the lane.
 */
export async function findNewNumber(
  db: Kysely<DB>,
  { id, client, reference }: RowOfOrder,
): Promise<string | null> {
  const found = await db
    .selectFrom('fulfilment.outbox as o')
    .select(sql<string | null>`o.result ->> 'externalOrderNumber'`.as('number'))
    .where('o.client', '=', client)
    .where('o.reference', '=', reference)
    .where('o.kind', 'in', ['order.rename', 'order.create', 'order.replace'])
    .where('o.status', '=', 'done')
    .where('o.id', '<', id)
    .orderBy('o.id', 'desc')
    .limit(1)
    .executeTakeFirst();

  return found?.number ?? null;
}

/**
 * Finds an unfinished row because of which no order may get this number: an earlier `order.rename`
 * that will free the number, else a row that makes an order with it. Rows behind the rename that
 * change an order with the number mean the renamed one. An `order.create` behind it may also follow
 * an `order.rename` that frees the number again.
 */
export async function findUserOfNumber(
  db: Kysely<DB>,
  { id, client }: Pick<RowOfOrder, 'id' | 'client'>,
  number: string,
): Promise<OtherRow | null> {
  const { rows } = await sql<OtherRow>`
    with lane as materialized (
      select o.id, o.kind, o.reference, o.status
      from fulfilment.outbox o
      where o.client = ${client} and o.family = 'order' and o.reference = ${number}
        and o.status in ${unfinishedStatuses}
          and o.kind in ('order.create', 'order.replace', 'order.rename')
    )
    select l.*
    from lane l
    where case l.kind
      when 'order.create' then not exists (
        select from lane r
        where r.kind = 'order.rename' and r.id > ${id} and r.id < l.id)
      else l.id < ${id} end
    order by l.kind <> 'order.rename', l.id
    limit 1`.execute(db);

  return rows[0] ?? null;
}
