/** Deliveries that were not taken, for people. */

import { type Kysely, sql } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';
import type { Database } from '../../db/pool.ts';
import { inTransaction } from '../../db/transaction.ts';
import { type DeliveryLane, restartLanes } from './delivery-lanes.ts';
import { lockReceivers } from './receivers.ts';

/** A delivery that is not delivered. */
export interface Undelivered {
  readonly id: number;
  readonly receiver: string;
  readonly type: string;
  readonly client: string;
  readonly number: string | null;
  readonly happenedAt: Date;
  readonly tries: number;
  readonly status: 'waiting' | 'dead';
  /** Null: it was given up, or waits for an earlier one. */
  readonly nextAt: Date | null;
  readonly lastErrorCode: string | null;
  readonly lastError: string | null;
}

/** Lists the first deliveries that are not delivered, those that were given up first. */
export async function listUndelivered(db: Kysely<DB>, maxRows: number): Promise<Undelivered[]> {
  const { rows } = await sql<Undelivered>`
    select id::int8 as id, receiver, type, client, number, happened_at as "happenedAt", tries,
      status, next_at as "nextAt", last_error_code as "lastErrorCode", last_error as "lastError"
    from sync.deliveries
    where status in ('dead', 'waiting')
    order by status, id
    limit ${maxRows}`.execute(db);

  return rows;
}

/**
 * Makes undelivered deliveries due at once: these ones, or all that were given up. Those of one
 * lane still wait for each other.
 * @param ids null: all that were given up
 * @returns their ids
 */
export function retryDeliveries(db: Database, ids: readonly number[] | null): Promise<number[]> {
  return inTransaction(db, async (trx) => {
    const receivers = await trx.selectFrom('sync.receivers').select('name').execute();
    const names = receivers.map(({ name }) => name);
    await lockReceivers(trx, names);

    const { rows } = await sql<DeliveryLane & { id: number }>`
      update sync.deliveries
      set status = 'waiting', finished_at = null, not_before = null,
        tries = case status when 'dead' then 0 else tries end
      where status <> 'delivered'
        and case when ${ids}::bigint[] is null then status = 'dead'
          else id = any(${ids}::bigint[]) end
      returning id::int8 as id, receiver, lane`.execute(trx);

    await restartLanes(trx, rows);
    return rows.map(({ id }) => id);
  });
}

/** Counts the deliveries that wait, but these. */
export async function countOtherWaiting(db: Kysely<DB>, ids: readonly number[]): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*)::int as count
    from sync.deliveries
    where status = 'waiting' and id <> all(${ids}::bigint[])`.execute(db);
  return rows[0]?.count ?? 0;
}

/** The deliveries of one receiver that are not delivered as they should. */
export interface DeliveryBacklog {
  readonly receiver: string;
  readonly kind: 'event' | 'alert';
  /** All that wait, if one was tried three times or more, or if the receiver is away; else 0. */
  readonly waiting: number;
  /** All that were given up; of alerts, those within a day. */
  readonly dead: number;
  /** When the oldest that was tried in vain was made. */
  readonly oldestAt: Date | null;
  readonly lastError: string | null;
  /** When events were not made; null if that was never, or more than 7 days ago. */
  readonly missedAt: Date | null;
}

/** Number of deliveries up to which they are counted exactly. */
const maxCounted = 10_000;

/** Reads the receivers that do not take their deliveries, or that missed some. */
export async function readDeliveryBacklog(db: Kysely<DB>): Promise<DeliveryBacklog[]> {
  const { rows } = await sql<DeliveryBacklog>`
    select r.name as receiver, r.kind,
      case when f.created_at is null then 0 else w.waiting end as waiting, d.dead,
      f.created_at as "oldestAt",
      coalesce(r.last_error, f.last_error, d.last_error) as "lastError", m.missed_at as "missedAt"
    from sync.receivers r
    left join lateral (
      select f.created_at, f.last_error
      from sync.deliveries f
      where f.receiver = r.name and f.next_at is not null and f.tries > 0
        and f.last_error is not null and (f.tries >= 3 or r.failures >= 3)
      order by f.id
      limit 1
    ) f on true
    cross join lateral (
      select count(*)::int as waiting
      from (
        select
        from sync.deliveries e
        where e.receiver = r.name and e.status = 'waiting'
        limit ${maxCounted}
      ) e
    ) w
    cross join lateral (
      select count(*)::int as dead, (array_agg(d.last_error order by d.id desc))[1] as last_error
      from (
        select d.id, d.last_error
        from sync.deliveries d
        where d.receiver = r.name and d.status = 'dead'
          and (r.kind = 'event' or d.finished_at > now() - interval '1 day')
        order by d.id desc
        limit ${maxCounted}
      ) d
    ) d
    left join lateral (select r.missed_at where r.missed_at > now() - interval '7 days') m on true
    where f.created_at is not null or d.dead > 0 or m.missed_at is not null
    order by r.name`.execute(db);

  return rows;
}
