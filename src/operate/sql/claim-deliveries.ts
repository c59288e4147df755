/** Which deliveries are posted next, and how an attempt ended. */

import { type Kysely, type RawBuilder, sql, type Transaction } from 'kysely';
import {
  chooseDue,
  type DeliveryEnd,
  type DueDelivery,
  type ReceiverEnd,
  type ReceiverState,
} from '../../core/delivery.ts';
import type { DB } from '../../db/generated/tables.ts';
import type { Database } from '../../db/pool.ts';
import { inTransaction } from '../../db/transaction.ts';
import { mayBeCopy } from '../../push/sql/push-database.ts';
import { promoteHeads } from './delivery-lanes.ts';

/** A delivery that this worker posts now. */
export interface ClaimedDelivery {
  readonly id: string;
  /** The same for every attempt. */
  readonly messageId: string;
  readonly type: string;
  readonly client: string;
  /** Client whose turn it took. */
  readonly turn: string;
  readonly lane: string;
  /** Number of attempts, with this one. */
  readonly tries: number;
  readonly ageMs: number;
  /** JSON text of what is posted; null for an event, whose row is read now. */
  readonly body: string | null;
}

/** What a claim takes. */
export interface DeliveryClaim {
  readonly receiver: string;
  /** Number of posts to this receiver that are under way here. */
  readonly underWay: number;
  /** The turn that was served last. */
  readonly lastTurn: string;
  /** Time within which no other worker claims these deliveries. */
  readonly leaseMs: number;
}

/**
 * Claims deliveries that are due and first in their lanes, as many as the receiver has places. Of a
 * receiver that is away, one at a time tries whether it is back. A database that is or may be a
 * copy posts no events, because the one in use does; its alerts go on.
 */
export async function claimDeliveries(
  db: Kysely<DB>,
  claim: DeliveryClaim,
): Promise<ClaimedDelivery[]> {
  const { receiver, underWay, lastTurn, leaseMs } = claim;
  const state = await readState(db, receiver);
  if (state === null) return [];
  const places = state.isAway ? 1 : state.places - underWay;
  if (places <= 0 || (state.isAway && !state.isDue)) return [];

  // By turns the oldest and the newest: an old one that always fails must not be all that is tried.
  const due = await findDue(db, receiver, places, state.isAway && state.failures % 2 === 1);
  const chosen = chooseDue(due, places, lastTurn).map(({ id }) => id);
  if (chosen.length === 0 || (state.isAway && !(await takeTrial(db, receiver, leaseMs)))) return [];

  return markClaimed(db, chosen, leaseMs);
}

async function readState(
  db: Kysely<DB>,
  receiver: string,
): Promise<(ReceiverState & { isDue: boolean }) | null> {
  const { rows } = await sql<ReceiverState & { isDue: boolean }>`
    select away_since is not null as "isAway", failures, places,
      coalesce(next_at <= clock_timestamp(), true) as "isDue"
    from sync.receivers
    where name = ${receiver} and (kind = 'alert' or not ${mayBeCopy})`.execute(db);
  return rows[0] ?? null;
}

/**
 * Finds the due deliveries of each turn, at most `most` new ones and `most` that were tried before.
 */
async function findDue(
  db: Kysely<DB>,
  receiver: string,
  most: number,
  newest: boolean,
): Promise<DueDelivery[]> {
  const order = newest
    ? sql`d.receiver desc, d.turn desc, d.next_at desc, d.id desc`
    : sql`d.receiver, d.turn, d.next_at, d.id`;

  const selectDue = (isNew: boolean, tries: RawBuilder<unknown>) => sql`
    select d.id, t.turn, ${isNew}::boolean as "isNew", d.place
    from t
    cross join lateral (
      select d.id::text as id, (row_number() over ())::int as place
      from (
        select d.id
        from sync.deliveries d
        where d.receiver = ${receiver} and d.turn = t.turn and ${tries}
          and d.next_at <= statement_timestamp()
        order by ${order}
        limit ${most}
      ) d
    ) d`;

  const selectNextTurn = (after: RawBuilder<unknown>, tries: RawBuilder<unknown>) => sql`(
      select d.turn
      from sync.deliveries d
      where d.receiver = ${receiver} and d.turn > ${after} and d.next_at is not null and ${tries}
      order by d.receiver, d.turn
      limit 1)`;

  const fresh = sql`d.tries = 0`;
  const tried = sql`d.tries > 0`;

  // Each step finds the next turn in the index: the number of deliveries in a turn does not matter.
  const { rows } = await sql<DueDelivery>`
    with recursive t (turn) as (
      select ''::text
      union all
      select n.turn
      from t
      cross join lateral (
        select least(${selectNextTurn(sql`t.turn`, fresh)}, ${selectNextTurn(sql`t.turn`, tried)})
          as turn
      ) n
      where n.turn is not null
    )
    ${selectDue(true, fresh)}
    union all
    ${selectDue(false, tried)}`.execute(db);

  return rows;
}

/** Takes the right to try whether a receiver is back. Returns false if another worker has it. */
async function takeTrial(db: Kysely<DB>, receiver: string, leaseMs: number): Promise<boolean> {
  const { numAffectedRows } = await sql`
    update sync.receivers
    set next_at = clock_timestamp() + make_interval(secs => ${leaseMs / 1_000})
    where name = ${receiver} and next_at <= clock_timestamp()`.execute(db);
  return numAffectedRows === 1n;
}

async function markClaimed(
  db: Kysely<DB>,
  ids: readonly string[],
  leaseMs: number,
): Promise<ClaimedDelivery[]> {
  const { rows } = await sql<ClaimedDelivery>`
    with free as materialized (
      select d.id
      from sync.deliveries d
      where d.id = any(${ids}::bigint[]) and d.next_at <= statement_timestamp()
      for update skip locked
    )
    update sync.deliveries d
    set tries = d.tries + 1,
      next_at = statement_timestamp() + make_interval(secs => ${leaseMs / 1_000})
    from free f
    where d.id = f.id
    returning d.id::text as id, d.message_id::text as "messageId", d.type, d.client, d.turn, d.lane,
      d.tries, d.body::text as body,
      (extract(epoch from clock_timestamp() - d.created_at) * 1000)::float8 as "ageMs"`.execute(db);

  return rows.toSorted((one, other) => Number(one.id) - Number(other.id));
}

/** How an attempt ended. */
export interface Attempt {
  readonly receiver: string;
  readonly delivery: ClaimedDelivery;
  readonly end: DeliveryEnd;
  /** Why it failed; null if it did not. */
  readonly failure: { readonly code: string; readonly error: string } | null;
}

/**
 * Records how an attempt ended. The next delivery of a lane is due when this one is finished.
 * @param judge returns what the attempt says about the receiver
 */
export async function settleAttempt(
  db: Database,
  attempt: Attempt,
  judge: (state: ReceiverState) => ReceiverEnd,
): Promise<void> {
  const { receiver, delivery, end } = attempt;
  await inTransaction(db, async (trx) => {
    const { rows } = await sql<ReceiverState>`
      select away_since is not null as "isAway", failures, places
      from sync.receivers
      where name = ${receiver}
      for update`.execute(trx);
    const [state] = rows;
    if (state === undefined) return;

    await endDelivery(trx, attempt);
    if (end.status !== 'waiting') await promoteHeads(trx, [{ receiver, lane: delivery.lane }]);

    const next = judge(state);
    if (next.isAway || state.isAway || next.places !== state.places)
      await storeState(trx, attempt, next);
  });
}

async function endDelivery(
  trx: Transaction<DB>,
  { delivery, end, failure }: Attempt,
): Promise<void> {
  const delayMs = end.status === 'waiting' ? end.delayMs : null;

  // If another worker has taken it over, only its success counts. Without a time, it waits for an
  // earlier one of its lane that a person retried.
  await sql`
    update sync.deliveries
    set status = ${end.status},
      finished_at = case when ${delayMs}::float8 is null then clock_timestamp() end,
      next_at = case when next_at is not null
        then clock_timestamp() + make_interval(secs => ${delayMs}::float8 / 1000) end,
      last_error_code = ${failure?.code ?? null}, last_error = ${failure?.error ?? null}
    where id = ${delivery.id} and status = 'waiting'
      and (${end.status} = 'delivered' or tries = ${delivery.tries})`.execute(trx);
}

async function storeState(
  trx: Transaction<DB>,
  { receiver, failure }: Attempt,
  next: ReceiverEnd,
): Promise<void> {
  const { isAway, failures, places, delayMs } = next;

  await sql`
    update sync.receivers
    set failures = ${failures}, places = ${places},
      away_since = case when ${isAway}::boolean then coalesce(away_since, clock_timestamp()) end,
      next_at = case when ${isAway}::boolean
        then clock_timestamp() + make_interval(secs => ${delayMs / 1_000}) end,
      last_error = case when ${isAway}::boolean then ${failure?.error ?? null} end
    where name = ${receiver}`.execute(trx);
}

/** Gives back a delivery whose post was aborted: that counts as no attempt. */
export async function returnDelivery(
  db: Kysely<DB>,
  { id, tries }: ClaimedDelivery,
): Promise<void> {
  await sql`
    update sync.deliveries
    set tries = tries - 1, next_at = case when next_at is not null then clock_timestamp() end
    where id = ${id} and status = 'waiting' and tries = ${tries}`.execute(db);
}
