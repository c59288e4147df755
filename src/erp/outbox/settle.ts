import { type Kysely, sql, type Transaction } from 'kysely';
import { type Json, storableJson } from '../../core/json.ts';
import type { DB } from '../generated/tables.ts';

/** What became of a claimed or looked-up row. */
export interface Settlement {
  readonly id: number;
  readonly client: string;
  readonly claimNo: number;
  readonly step: 'sent' | 'looked up';
  readonly status: 'done' | 'dead' | 'pending' | 'unknown';
  readonly error: string | null;
  readonly errorCode: string | null;
  /** pending and unknown: when it is tried or looked up next; null for unknown: an operator decides. */
  readonly delayMs: number | null;
  readonly result: Json | null;
  /** This attempt may have been carried out. */
  readonly written: boolean;
  readonly refusal: string | null;
  /** The attempt is not counted: the service was not asked to do anything, or refused it for a reason that is not the row's. */
  readonly refund: boolean;
  /** It was refused for such a reason: it waits longer each time. */
  readonly unburnt: boolean;
  /** This absence is one of the two that are believed. */
  readonly absenceCounts: boolean;
  readonly durationMs: number;
  /** Rows that follow behind it in its lane. */
  readonly followUps: readonly { readonly kind: string; readonly payload: Json }[];
}

/** What was settled, with its lane: a row another claim has meanwhile is not. */
export interface Settled extends Lane {
  readonly id: number;
  readonly status: string;
}

/** Rows of one lane are dealt with one after the other. */
export interface Lane {
  readonly client: string;
  readonly family: string;
  readonly reference: string;
}

/**
 * Settles rows, each only where it still is as its claim left it: sending, or (its worker was taken for lost) unknown, or
 * waiting to be sent again: a definite answer that comes late is never thrown away. Wakes the rows behind those that are
 * through.
 */
export async function settleRows(
  trx: Transaction<DB>,
  worker: string,
  settlements: readonly Settlement[],
): Promise<Settled[]> {
  const { rows } = await sql<Settled>`
    with s as materialized (
      select *
      from json_to_recordset(${storableJson(settlements)}::json) as s (
        id bigint, "claimNo" bigint, step text, status text, error text, "delayMs" float8, result jsonb,
        written boolean, refusal text, refund boolean, unburnt boolean, "absenceCounts" boolean)
    ), settled as (
      update fulfilment.outbox o
      set
        status = s.status, last_error = s.error, result = s.result, lease_until = null, sent_at = null,
          refusal = s.refusal,
        next_attempt_at = statement_timestamp() + make_interval(secs => s."delayMs" / 1000),
        finished_at = case when s.status in ('done', 'dead') then statement_timestamp() end,
        attempts = o.attempts - case when s.refund then 1 else 0 end,
        unburnt = case when s.unburnt then o.unburnt + 1
                       when s.step = 'looked up' or s.refund then o.unburnt else 0 end,
        written_at = case when s.written then coalesce(o.sent_at, statement_timestamp()) else o.written_at end,
        lookups = case when s.step = 'looked up' then o.lookups + 1 else 0 end,
        absences = case when s.step = 'looked up'
                        then o.absences + case when s."absenceCounts" then 1 else 0 end else 0 end,
        absent_at = case when s.step <> 'looked up' then null
                         when s."absenceCounts" then statement_timestamp() else o.absent_at end
      from s
      where o.id = s.id and o.claim_no = s."claimNo"
        and (o.status = 'unknown' or (o.status = 'sending' and s.step = 'sent')
             or (o.status = 'pending' and s.step = 'sent' and s.status = 'done'))
        and not (o.status = 'unknown' and s.step = 'sent' and s.status = 'unknown')
      returning o.id, o.client, o.family, o.reference, o.status
    )
    select *
    from settled`.execute(trx);
  await noteSteps(
    trx,
    worker,
    settlements,
    rows.map(({ id }) => id),
  );
  const through = rows.filter(({ status }) => status === 'done');
  await followUp(trx, settlements, new Map(through.map((row) => [row.id, row])));
  await wakeFreeLanes(trx, through);
  return rows;
}

/**
 * History. A look-up that changes nothing leaves none: there may be many. An answer that came too late is noted with what the
 * row is; one that was noted already, in a transaction whose end was not heard, is not noted twice.
 */
async function noteSteps(
  trx: Transaction<DB>,
  worker: string,
  settlements: readonly Settlement[],
  applied: readonly number[],
): Promise<void> {
  const noted = settlements.filter(
    ({ step, status, absenceCounts }) => step === 'sent' || status !== 'unknown' || absenceCounts,
  );
  if (noted.length === 0) return;
  await sql`
    insert into sync.outbox_attempts (outbox_id, step, by, claim_no, duration_ms, became, error_code, error)
    select s.id, s.step, ${worker}, s."claimNo", s."durationMs",
      case when s.id = any(${applied}::bigint[]) then s.status else o.status end, s."errorCode", s.error
    from json_to_recordset(${storableJson(noted)}::json) as s (
      id bigint, step text, "claimNo" bigint, "durationMs" integer, status text, "errorCode" text, error text)
    join fulfilment.outbox o on o.id = s.id
    where s.id = any(${applied}::bigint[]) or s.step = 'sent' and not exists (
      select from sync.outbox_attempts a where a.outbox_id = s.id and a.claim_no = s."claimNo" and a.step = 'sent')
    order by s.id`.execute(trx);
}

/** Inserts what follows from rows that are done, in their lane, before it is woken. */
async function followUp(
  trx: Transaction<DB>,
  settlements: readonly Settlement[],
  through: ReadonlyMap<number, { client: string; reference: string }>,
): Promise<void> {
  const rows = settlements.flatMap(({ id, followUps }) => {
    const row = through.get(id);
    return row === undefined
      ? []
      : followUps.map((next) => ({ client: row.client, reference: row.reference, ...next }));
  });
  await insertFollowUps(trx, rows);
}

/** A row that follows from another, in the lane of that one. */
export interface FollowingRow {
  readonly client: string;
  readonly kind: string;
  readonly reference: string;
  readonly payload: Json;
}

/** Inserts rows that follow from others, in this order. */
export async function insertFollowUps(trx: Transaction<DB>, rows: readonly FollowingRow[]): Promise<void> {
  if (rows.length === 0) return;
  await sql`
    insert into fulfilment.outbox (client, kind, reference, payload)
    select r.client, r.kind, r.reference, coalesce(r.payload, 'null')
    from json_to_recordset(${storableJson(rows)}::json) as r (client text, kind text, reference text,
      payload jsonb)`.execute(trx);
}

/**
 * Wakes the first row of each of these lanes, and waits for none that somebody has locked. Call it in the transaction that
 * frees the lanes, and again after its commit: a claim that ran meanwhile has put the row off, as it was behind another.
 * @returns lanes whose first row is locked; call it again for them
 */
export async function wakeFreeLanes(db: Kysely<DB>, lanes: readonly Lane[]): Promise<Lane[]> {
  if (lanes.length === 0) return [];
  const { rows } = await sql<Lane>`
    with heads as materialized (
      select h.id, l.client, l.family, l.reference
      from (
        select distinct *
          from json_to_recordset(${JSON.stringify(lanes)}::json) as l (client text, family text, reference text)
      ) l
      cross join lateral (
        select b.id, b.status from fulfilment.outbox b
        where b.client = l.client and b.family = l.family and b.reference = l.reference
          and b.status in ('pending', 'sending', 'unknown', 'dead')
        order by b.id limit 1
      ) h
      where h.status = 'pending'
    ), free as materialized (
      select o.id
      from fulfilment.outbox o
      join heads on heads.id = o.id
      where o.status = 'pending'
      for no key update of o skip locked
    ), woken as (
      update fulfilment.outbox o
      set next_attempt_at = clock_timestamp()
      from free
      where o.id = free.id
    )
    select client, family, reference
    from heads
    where id not in (select id from free)`.execute(db);
  return rows;
}

/**
 * Locks rows that are to be settled, and waits for none that somebody else has locked.
 * @returns ids of the rows that are locked by others
 */
export async function lockForSettling(trx: Transaction<DB>, ids: readonly number[]): Promise<ReadonlySet<number>> {
  const { rows } = await sql<{ id: number }>`
    with free as materialized (
      select o.id
      from fulfilment.outbox o
      where o.id = any(${ids}::bigint[])
      for no key update of o skip locked
    )
    select o.id
    from fulfilment.outbox o
    where o.id = any(${ids}::bigint[]) and o.id not in (select id from free)`.execute(trx);
  return new Set(rows.map(({ id }) => id));
}

/**
 * Wakes the first row of each of these lanes, in the transaction of a person who frees them; waits for rows that are locked.
 */
export async function wakeLanes(db: Kysely<DB>, lanes: readonly Lane[]): Promise<void> {
  if (lanes.length === 0) return;
  await sql`
    select sync.wake_lane(l.client, l.family, l.reference)
    from (
      select distinct *
        from json_to_recordset(${JSON.stringify(lanes)}::json) as l (client text, family text, reference text)
    ) l`.execute(db);
}
