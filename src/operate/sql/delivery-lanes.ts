import { type RawBuilder, sql, type Transaction } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';

/** A lane of a receiver. */
export interface DeliveryLane {
  readonly receiver: string;
  readonly lane: string;
}

/** A delivery that is added. */
export interface NewDelivery extends DeliveryLane {
  readonly type: string;
  readonly client: string;
  readonly turn: string;
  readonly sourceId?: number | null;
  readonly sourceKey?: string | null;
  readonly number?: string | null;
  /** What is posted. Without it, the row is read when it is posted. */
  readonly body?: object;
  readonly happenedAt: Date;
  /** Milliseconds that it waits for something else than its lane. */
  readonly delayMs: number;
}

/** SQL: lanes, each once, as a set named l. */
const laneSet = (lanes: readonly DeliveryLane[]) => {
  const receivers = lanes.map(({ receiver }) => receiver);
  const names = lanes.map(({ lane }) => lane);
  return sql`(
      select distinct u.receiver, u.lane
      from unnest(${receivers}::text[], ${names}::text[]) as u (receiver, lane)
    ) l`;
};

/** SQL: the first waiting delivery of a lane, found by the index whatever the planner knows. */
const selectHead = (lane: RawBuilder<unknown>) => sql`
      select h.id
      from sync.deliveries h
      where h.receiver = ${lane}.receiver and h.lane = ${lane}.lane and h.status = 'waiting'
      order by h.receiver, h.lane, h.id
      limit 1`;

/**
 * Adds deliveries, in this order. One that is first in its lane is due; the others wait behind it.
 * Lock their receivers before.
 */
export async function insertDeliveries(
  trx: Transaction<DB>,
  deliveries: readonly NewDelivery[],
): Promise<void> {
  if (deliveries.length === 0) return;

  await sql`
    insert into sync.deliveries
      (receiver, type, client, turn, lane, source_id, source_key, number, body, happened_at,
        not_before, next_at)
    select n.receiver, n.type, n.client, n.turn, n.lane, n."sourceId", n."sourceKey", n.number,
      n.body, n."happenedAt",
      case when n."delayMs" > 0 then s.starts_at end,
      case when w.id is null and e.place = min(e.place) over (partition by n.receiver, n.lane)
        then s.starts_at end
    from json_array_elements(${JSON.stringify(deliveries)}::json) with ordinality
      as e (value, place)
    cross join lateral json_to_record(e.value) as n (
      receiver text, type text, client text, turn text, lane text, "sourceId" bigint,
      "sourceKey" text, number text, body jsonb, "happenedAt" timestamptz, "delayMs" float8)
    cross join lateral (select now() + make_interval(secs => n."delayMs" / 1000) as starts_at) s
    left join lateral (${selectHead(sql`n`)}) w on true
    order by e.place`.execute(trx);
}

/**
 * Makes the first waiting delivery of each of these lanes due, unless it has a time already. Lock
 * their receivers before.
 */
export async function promoteHeads(
  trx: Transaction<DB>,
  lanes: readonly DeliveryLane[],
): Promise<void> {
  if (lanes.length === 0) return;

  await sql`
    update sync.deliveries d
    set next_at = greatest(clock_timestamp(), d.not_before)
    from ${laneSet(lanes)}
    cross join lateral (${selectHead(sql`l`)}) h
    where d.id = h.id and d.next_at is null`.execute(trx);
}

/**
 * Makes the first waiting delivery of each of these lanes due now, and the others wait behind it.
 * Lock their receivers before.
 */
export async function restartLanes(
  trx: Transaction<DB>,
  lanes: readonly DeliveryLane[],
): Promise<void> {
  if (lanes.length === 0) return;

  await sql`
    update sync.deliveries d
    set next_at = null
    from ${laneSet(lanes)}
    where d.receiver = l.receiver and d.lane = l.lane and d.status = 'waiting'
      and d.next_at is not null`.execute(trx);
  await promoteHeads(trx, lanes);
}
