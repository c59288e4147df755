import { sql, type Transaction } from 'kysely';
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
  readonly sourceId: number | null;
  readonly sourceKey: string | null;
  readonly number: string | null;
  /** Null: the row is read when it is posted. */
  readonly body: unknown;
  readonly happenedAt: Date;
  /** Milliseconds that it waits for something else than its lane. */
  readonly delayMs: number;
}

const toKey = ({ receiver, lane }: DeliveryLane) => JSON.stringify([receiver, lane]);

/** SQL: lanes as a set named l. */
const laneSet = (lanes: readonly DeliveryLane[]) => {
  const distinct = [...new Map(lanes.map((one) => [toKey(one), one])).values()];
  const receivers = distinct.map(({ receiver }) => receiver);
  const names = distinct.map(({ lane }) => lane);
  return sql`unnest(${receivers}::text[], ${names}::text[]) as l (receiver, lane)`;
};

/**
 * Returns a function that tells whether a delivery waits in one of these lanes. Lock their
 * receivers before.
 */
export async function findWaitingLanes(
  trx: Transaction<DB>,
  lanes: readonly DeliveryLane[],
): Promise<(lane: DeliveryLane) => boolean> {
  const { rows } = await sql<DeliveryLane>`
    select l.receiver, l.lane
    from ${laneSet(lanes)}
    where exists (
      select from sync.deliveries d
      where d.receiver = l.receiver and d.lane = l.lane and d.status = 'waiting')`.execute(trx);

  const waiting = new Set(rows.map(toKey));
  return (lane) => waiting.has(toKey(lane));
}

/**
 * Adds deliveries, in this order. One that is first in its lane is due; the others wait behind it.
 * Lock their receivers before.
 * @param isWaiting tells whether a delivery waits in a lane
 */
export async function insertDeliveries(
  trx: Transaction<DB>,
  deliveries: readonly NewDelivery[],
  isWaiting: (lane: DeliveryLane) => boolean,
): Promise<void> {
  if (deliveries.length === 0) return;

  const begun = new Set<string>();
  const rows = deliveries.map(({ body, ...delivery }) => {
    const key = toKey(delivery);
    const isHead = !begun.has(key) && !isWaiting(delivery);
    begun.add(key);
    return { ...delivery, body: body ?? undefined, isHead };
  });

  await sql`
    insert into sync.deliveries
      (receiver, type, client, turn, lane, source_id, source_key, number, body, happened_at,
        not_before, next_at)
    select n.receiver, n.type, n.client, n.turn, n.lane, n."sourceId", n."sourceKey", n.number,
      n.body, n."happenedAt",
      case when n."delayMs" > 0 then s.starts_at end,
      case when n."isHead" then s.starts_at end
    from json_array_elements(${JSON.stringify(rows)}::json) with ordinality as e (value, place)
    cross join lateral json_to_record(e.value) as n (
      receiver text, type text, client text, turn text, lane text, "sourceId" bigint,
      "sourceKey" text, number text, body jsonb, "happenedAt" timestamptz, "delayMs" float8,
      "isHead" boolean)
    cross join lateral (select now() + make_interval(secs => n."delayMs" / 1000) as starts_at) s
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
    cross join lateral (
      select h.id
      from sync.deliveries h
      where h.receiver = l.receiver and h.lane = l.lane and h.status = 'waiting'
      order by h.receiver, h.lane, h.id
      limit 1
    ) h
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
