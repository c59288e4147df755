import { sql, type Transaction } from 'kysely';
import { type Json, toStorableJson } from '../../core/json.ts';
import type { DB } from '../../db/generated/tables.ts';
import type { Verdict } from '../judge-outcome.ts';
import type { FollowUp } from '../kind.ts';
import { type Lane, letsPass, releaseLanes } from './lanes.ts';

/** The outcome of an attempt or look-up, as it is written to the row. */
export interface Settlement extends Verdict {
  readonly id: number;
  readonly client: string;
  readonly claimNo: number;
  readonly step: 'sent' | 'looked up' | 'taken over';
  /** Absent: not known. */
  readonly durationMs?: number;
  /** Codes of the failure; absent if nothing failed. */
  readonly errorCode?: string;
  readonly httpStatus?: number | null;
  readonly operation?: string | null;
  readonly result?: Json;
  /** True if the row was only checked: the request that asks for the change was not sent. */
  readonly isUnsent?: boolean;
  /** True if a look-up did not find the row. */
  readonly isAbsent?: boolean;
  /** Follow-up rows of the same lane. */
  readonly followUps?: readonly FollowUp[];
}

/** Result of a settlement. */
export interface SettleResult {
  /** Ids of the settled rows, with their state. */
  readonly settled: ReadonlyMap<number, string>;
  /** Ids of rows that somebody else has locked. Nothing of them was written. */
  readonly locked: ReadonlySet<number>;
  /** True if rows behind the settled ones may be sent now. */
  readonly hasReleased: boolean;
}

/** Maximum bytes of an error that is stored. */
const maxErrorBytes = 4_096;

/** Cuts a text to a number of bytes. */
function cutError(error: string | null | undefined): string | null {
  if (error == null) return null;
  if (Buffer.byteLength(error) <= maxErrorBytes) return error;
  // The cut may fall into a character, which is then left out.
  return `${Buffer.from(error)
    .subarray(0, maxErrorBytes - 4)
    .toString()
    .replace(/\ufffd$/, '')}…`;
}

/** A row of a settlement, as it is now. */
interface PresentRow extends Lane {
  readonly id: number;
  /** Null: somebody else has locked it. */
  readonly status: string | null;
  readonly claimNo: number | null;
  /** True if the personal data of the row was erased. */
  readonly isErased: boolean | null;
}

/** A row that was settled. */
interface SettledRow extends Lane {
  readonly id: number;
  readonly status: string;
  /** True if rows behind it may be sent now. */
  readonly frees: boolean;
}

/**
 * Settles rows, and releases the rows behind those that are done or do not hold them. A row is
 * settled only if it still has the state that its claim left. Rows that somebody has locked are
 * left out.
 */
export async function settleRows(
  trx: Transaction<DB>,
  worker: string,
  settlements: readonly Settlement[],
): Promise<SettleResult> {
  const present = await lockSettledRows(trx, settlements);
  const isLocked = ({ id }: Settlement) => present.get(id)?.status == null;
  const locked = settlements.filter(isLocked);
  const free = settlements.filter((settlement) => !isLocked(settlement));

  const accepted = free.filter((settlement) => mayStillSettle(settlement, present));
  const settled = await writeSettlements(trx, accepted);
  const statuses = new Map(settled.map(({ id, status }) => [id, status]));
  await noteAttempts(trx, worker, free, { present, settled: statuses });

  const followUps = settlements
    .filter(({ id }) => statuses.get(id) === 'done')
    .flatMap(({ id, followUps = [] }) => followUps.map((next) => ({ ...next, follows: id })));
  await insertFollowUps(trx, followUps);

  const { due, released } = await releaseLanes(
    trx,
    settled.filter(({ frees }) => frees),
  );
  const lockedIds = locked.map(({ id }) => id).filter((id) => present.has(id));
  return { settled: statuses, locked: new Set(lockedIds), hasReleased: due + released > 0 };
}

type PresentRows = ReadonlyMap<number, PresentRow>;

/**
 * Locks the rows of settlements, and reads their state. Rows that somebody has locked have none.
 */
async function lockSettledRows(
  trx: Transaction<DB>,
  settlements: readonly Settlement[],
): Promise<PresentRows> {
  const { rows } = await sql<PresentRow>`
    select o.id, o.client, o.family, o.reference, l.status, l.claim_no as "claimNo",
      l.erased_at is not null as "isErased"
    from unnest(${settlements.map(({ id }) => id)}::bigint[]) as i (id)
    cross join lateral (select * from fulfilment.outbox o where o.id = i.id limit 1) o
    left join lateral (
      select l.*
      from fulfilment.outbox l
      where l.id = i.id
      limit 1
      for no key update of l skip locked
    ) l on true`.execute(trx);
  return new Map(rows.map((row) => [row.id, row]));
}

/**
 * Returns true if a row still has the state that its claim left: `sending`, `unknown` after its
 * worker was taken for lost, or pending again. A late but definite answer therefore still settles
 * its row.
 */
function mayStillSettle({ id, claimNo, step, status }: Settlement, present: PresentRows): boolean {
  const row = present.get(id);
  if (row?.claimNo !== claimNo) return false;

  if (row.status === 'unknown') return step === 'looked up' || status !== 'unknown';
  if (row.status === 'sending') return step !== 'looked up';
  return row.status === 'pending' && step === 'sent' && status === 'done';
}

/** Writes settlements to their rows, which are locked. */
async function writeSettlements(
  trx: Transaction<DB>,
  settlements: readonly Settlement[],
): Promise<SettledRow[]> {
  if (settlements.length === 0) return [];
  const given = settlements.map(({ followUps: _followUps, ...one }) => ({
    ...one,
    error: cutError(one.error),
    refusal: cutError(one.refusal),
  }));
  const { rows } = await sql<SettledRow>`
    update fulfilment.outbox o
    set
      status = s.status, last_error = s.error, result = s.result, lease_until = null,
      sent_at = null, refusal = s.refusal, refused_as = s."refusedAs",
      next_attempt_at = clock_timestamp() + make_interval(secs => s."delayMs" / 1000),
      finished_at = case when s.status in ('done', 'dead') then clock_timestamp() end,
      -- A lost worker's try was counted when its row was taken over.
      attempts = o.attempts
        - case when (s.refund or s."isUnsent") and o.status <> 'pending' then 1 else 0 end,
      tries = case when s.step = 'looked up' then o.tries
        else o.tries + case when s.refund then 0 else 1 end
          - case when o.status = 'sending' then 0 else 1 end end,
      refused_for_others = case when s."isRefusedForOthers" then o.refused_for_others + 1
                     when s.step = 'looked up' or s.refund then o.refused_for_others else 0 end,
      written_at = case when s.written then coalesce(o.sent_at, clock_timestamp())
        else o.written_at end,
      lookups = case when s.step = 'looked up' then o.lookups + 1 else 0 end,
      absences = case when s.step = 'looked up'
                      then o.absences + case when s.counts then 1 else 0 end
                      -- An attempt that was certainly not carried out changes nothing about what
                      -- was found before.
                      when s.status = 'pending' and s.written is not true then o.absences
                      else 0 end,
      absent_at = case when s.step <> 'looked up' then null
                       when s."isAbsent" then clock_timestamp() else o.absent_at end
    from json_to_recordset(${toStorableJson(given)}::json) as s (id bigint, step text,
      status text, error text, "delayMs" float8, result jsonb, written boolean, refusal text,
      refund boolean, "isRefusedForOthers" boolean, "refusedAs" text, "isUnsent" boolean,
      "isAbsent" boolean, counts boolean)
    where o.id = s.id
    returning o.id, o.client, o.family, o.reference, o.status,
      o.status = 'done' or ${letsPass('o')} as frees`.execute(trx);
  return rows;
}

/**
 * Records attempts and look-ups in the history of their rows. A look-up that changes nothing is not
 * recorded, because there may be many. An answer that came too late is recorded with the present
 * state of its row, unless an earlier transaction has recorded it: its commit may have succeeded
 * without our knowledge. A late answer to a row whose personal data was erased is recorded without
 * its words.
 */
async function noteAttempts(
  trx: Transaction<DB>,
  worker: string,
  settlements: readonly Settlement[],
  rows: { readonly present: PresentRows; readonly settled: ReadonlyMap<number, string> },
): Promise<void> {
  const notes = settlements.flatMap((settlement) => {
    const { id, step, status, counts } = settlement;
    const isSettled = rows.settled.has(id);
    if (step === 'looked up' && (!isSettled || (status === 'unknown' && counts !== true)))
      return [];

    const row = rows.present.get(id);
    const error = row?.isErased === true ? null : cutError(settlement.error);
    const { claimNo, durationMs, errorCode, httpStatus, operation } = settlement;
    return [
      {
        ...{ id, claimNo, durationMs, errorCode, httpStatus, operation, error, isSettled },
        step: settlement.isUnsent ? 'checked' : step,
        became: isSettled ? status : row?.status,
      },
    ];
  });
  if (notes.length === 0) return;
  await sql`
    insert into sync.outbox_attempts (outbox_id, step, by, claim_no, duration_ms, became,
      error_code, http_status, operation, error)
    select n.id, n.step, ${worker}, n."claimNo", n."durationMs", n.became, n."errorCode",
      n."httpStatus", n.operation, n.error
    from json_to_recordset(${toStorableJson(notes)}::json) as n (id bigint, step text,
      "claimNo" bigint, "durationMs" integer, became text, "errorCode" text,
      "httpStatus" integer, operation text, error text, "isSettled" boolean)
    -- A count uses an index for each row. A plan for "not exists" would read the whole history
    -- into memory.
    where n."isSettled" or 0 = (
      select count(*)
      from sync.outbox_attempts a
      where a.outbox_id = n.id and a.claim_no = n."claimNo" and a.step in ('sent', 'checked'))
    order by n.id`.execute(trx);
}

/** A follow-up row, in the lane of the row that it follows. */
interface FollowUpRow extends FollowUp {
  /** Id of the row that it follows. */
  readonly follows: number;
}

/**
 * Inserts follow-up rows in the given order. They come behind rows of the lane that wait already,
 * so that the number may mean another order when they are sent. The order of the row that they
 * follow is therefore stored as their target, if the result of that row names it.
 */
export async function insertFollowUps(
  trx: Transaction<DB>,
  rows: readonly FollowUpRow[],
): Promise<void> {
  if (rows.length === 0) return;
  await sql`
    with given as materialized (
      select nextval('fulfilment.outbox_id_seq') as id, r.*
      from (
        select *
        from rows from (json_to_recordset(${toStorableJson(rows)}::json)
          as (follows bigint, kind text, payload jsonb)) with ordinality
          as r (follows, kind, payload, place)
        order by place
      ) r
    ), added as (
      insert into fulfilment.outbox (id, client, kind, reference, payload)
      overriding system value
      select g.id, o.client, g.kind, o.reference, coalesce(g.payload, 'null')
      from given g
      join fulfilment.outbox o on o.id = g.follows
    )
    insert into sync.outbox_targets (outbox_id, target_id)
    select g.id, sync.read_document_id(o.result -> 'orderId')
    from given g
    join fulfilment.outbox o on o.id = g.follows
    where sync.read_document_id(o.result -> 'orderId') is not null`.execute(trx);
}

/**
 * Moves due times forward after pushes of a client: the polls of `streams` are due at once, those
 * that adapt their interval after the shorter one. Jobs that are off stay off. A locked job is left
 * out: a settlement must not wait.
 */
export async function bringPollsForward(
  trx: Transaction<DB>,
  client: string,
  streams: readonly string[] = [],
): Promise<void> {
  await sql`
    update sync.jobs
    set next_at = case when stream = any(${streams}::text[]) then least(next_at, sync.clock())
      else least(next_at, greatest(sync.clock(), soon_at)) end,
      last_push_at = case when soon_at is not null then now() end
    where (client, job) in (
      select j.client, j.job
      from sync.jobs j
      where j.client = ${client} and isfinite(j.next_at) and (
        (j.stream = any(${streams}::text[]) and j.next_at > sync.clock())
        or (j.soon_at is not null and (j.last_push_at is null
          or j.last_push_at < now() - interval '1 minute')))
      for update skip locked)`.execute(trx);
}
