import { sql, type Transaction } from 'kysely';
import { type Json, toStorableJson } from '../../core/json.ts';
import type { DB } from '../../db/generated/tables.ts';
import { notifyPushers } from '../../db/listener.ts';
import type { Database } from '../../db/pool.ts';
import { inTransaction } from '../../db/transaction.ts';
import type { RefusedAs } from '../push-outcome.ts';
import { type Lane, letsPass, releaseLanes } from './lanes.ts';

/** The outcome of an attempt or look-up, as it is written to the row. */
export interface Settlement {
  readonly id: number;
  readonly client: string;
  readonly claimNo: number;
  readonly step: 'sent' | 'looked up';
  readonly status: 'done' | 'dead' | 'pending' | 'unknown';
  readonly error: string | null;
  /** Codes of the failure; null if nothing failed. */
  readonly errorCode: string | null;
  readonly httpStatus: number | null;
  readonly operation: string | null;
  /**
   * Milliseconds until a pending row is sent again or an unknown row is looked up. Null for
   * unknown: an operator decides.
   */
  readonly delayMs: number | null;
  readonly result: Json | null;
  /** True if the service may have carried this attempt out. */
  readonly written: boolean;
  readonly refusal: string | null;
  /** True if the refusal may say that the service already has what the row asks for. */
  readonly refusedAs: RefusedAs | null;
  /**
   * True if the attempt does not count: the service was not asked to do anything, or it refused for
   * a reason outside this row.
   */
  readonly refund: boolean;
  /** True if the row was only checked: the request that asks for the change was not sent. */
  readonly isUnsent: boolean;
  /** True if it was refused for a reason outside this row. The row waits longer each time. */
  readonly isRefusedForOthers: boolean;
  /** True if a look-up did not find the row. */
  readonly isAbsent: boolean;
  /** True if this absence is one of the two after which the row is believed to be absent. */
  readonly absenceCounts: boolean;
  readonly durationMs: number;
  /** Follow-up rows of the same lane. */
  readonly followUps: readonly { readonly kind: string; readonly payload: Json }[];
}

/** Result of a settlement. */
export interface SettleResult {
  /** Ids of the settled rows, with their state. */
  readonly settled: ReadonlyMap<number, string>;
  /** Ids of rows that somebody else has locked. Nothing of them was written. */
  readonly locked: ReadonlySet<number>;
}

/** Maximum bytes of an error that is stored. */
const maxErrorBytes = 4_096;

/** Cuts a text to a number of bytes. */
function cutError(error: string | null): string | null {
  if (error === null || Buffer.byteLength(error) <= maxErrorBytes) return error;
  // The cut may fall into a character, which is then left out.
  return `${Buffer.from(error)
    .subarray(0, maxErrorBytes - 4)
    .toString()
    .replace(/\ufffd$/, '')}…`;
}

/** A row as its settlement leaves it. */
interface SettledRow extends Lane {
  readonly id: number;
  readonly status: string;
  /** True if rows behind it may be sent now. */
  readonly frees: boolean;
  /** True if somebody else has locked it. Nothing of it was written. */
  readonly locked: boolean;
}

/**
 * Settles rows, and releases the rows behind those that are done or do not hold them. A row is
 * settled only if it still has the state that its claim left: `sending`, `unknown` after its worker
 * was taken for lost, or pending again. A late but definite answer therefore still settles its row.
 * Rows that somebody has locked are left out.
 */
export async function settleRows(
  trx: Transaction<DB>,
  worker: string,
  settlements: readonly Settlement[],
): Promise<SettleResult> {
  const rows = await writeSettlements(trx, worker, settlements);
  const settled = rows.filter(({ locked }) => !locked);
  const done = new Map(
    settled.filter(({ status }) => status === 'done').map((row) => [row.id, row]),
  );
  const followUps = settlements.flatMap(({ id, followUps }) => {
    const row = done.get(id);
    return row === undefined
      ? []
      : followUps.map((next) => ({ ...next, client: row.client, reference: row.reference }));
  });
  await insertFollowUps(trx, followUps);
  const frees = settled.filter((row) => row.frees);
  await releaseLanes(trx, frees);
  return {
    settled: new Map(settled.map(({ id, status }) => [id, status])),
    locked: new Set(rows.filter(({ locked }) => locked).map(({ id }) => id)),
  };
}

/**
 * Writes settlements to the rows and to their history. A look-up that changes nothing is not
 * recorded, because there may be many. An answer that came too late is recorded with the present
 * state of its row. An answer that an earlier transaction already recorded is not recorded again:
 * its commit may have succeeded without our knowledge. A late answer to a row whose personal data
 * was erased is recorded without its words.
 */
async function writeSettlements(
  trx: Transaction<DB>,
  worker: string,
  settlements: readonly Settlement[],
): Promise<SettledRow[]> {
  const given = settlements.map(({ followUps: _followUps, ...one }) => ({
    ...one,
    error: cutError(one.error),
    refusal: cutError(one.refusal),
  }));
  const { rows } = await sql<SettledRow>`
    with s as materialized (
      select *
      from json_to_recordset(${toStorableJson(given)}::json) as s (
        id bigint, "claimNo" bigint, step text, status text, error text, "errorCode" text,
          "httpStatus" integer, operation text,
          "delayMs" float8,
        result jsonb, written boolean, refusal text, refund boolean, "isRefusedForOthers" boolean,
        "refusedAs" text, "isUnsent" boolean, "isAbsent" boolean, "absenceCounts" boolean,
          "durationMs" integer)
    ), free as materialized (
      select s.*, o.present_status, o.present_claim_no, o.erased_at
      from s
      cross join lateral (
        select o.status as present_status, o.claim_no as present_claim_no, o.erased_at
        from fulfilment.outbox o
        where o.id = s.id
        for no key update of o skip locked
      ) o
    ), settled as (
      update fulfilment.outbox o
      set
        status = s.status, last_error = s.error, result = s.result, lease_until = null,
          sent_at = null,
          refusal = s.refusal, refused_as = s."refusedAs",
        next_attempt_at = statement_timestamp() + make_interval(secs => s."delayMs" / 1000),
        finished_at = case when s.status in ('done', 'dead') then statement_timestamp() end,
        attempts = o.attempts - case when s.refund or s."isUnsent" then 1 else 0 end,
        failed_checks = o.failed_checks
          + case when s."isUnsent" and not s.refund and s.status <> 'done' then 1 else 0 end,
        refused_for_others = case when s."isRefusedForOthers" then o.refused_for_others + 1
                       when s.step = 'looked up' or s.refund then o.refused_for_others else 0 end,
        written_at = case when s.written then coalesce(o.sent_at, statement_timestamp())
          else o.written_at end,
        lookups = case when s.step = 'looked up' then o.lookups + 1 else 0 end,
        absences = case when s.step = 'looked up'
                        then o.absences + case when s."absenceCounts" then 1 else 0 end
                        -- An attempt that was certainly not carried out changes nothing about what
                        -- was found before.
                        when s.status = 'pending' and not s.written then o.absences else 0 end,
        absent_at = case when s.step <> 'looked up' then null
                         when s."isAbsent" then statement_timestamp() else o.absent_at end
      from free s
      -- The row is found by its id. Its state was read under the lock: a condition on it here would
      -- let a plan search all open rows.
      where o.id = s.id and s.present_claim_no = s."claimNo"
        and (s.present_status = 'unknown' or (s.present_status = 'sending' and s.step = 'sent')
             or (s.present_status = 'pending' and s.step = 'sent' and s.status = 'done'))
        and not (s.present_status = 'unknown' and s.step = 'sent' and s.status = 'unknown')
      returning o.id, o.client, o.family, o.reference, o.status,
        o.status = 'done' or ${letsPass('o')} as frees
    ), noted as (
      insert into sync.outbox_attempts (outbox_id, step, by, claim_no, duration_ms, became,
        error_code, http_status, operation, error)
      select s.id, case when s."isUnsent" then 'checked' else s.step end, ${worker}, s."claimNo",
        s."durationMs",
        case when s.id in (select id from settled) then s.status else s.present_status end,
          s."errorCode", s."httpStatus", s.operation,
        case when s.erased_at is null then s.error end
      from free s
      where (s.step = 'sent' or s.status <> 'unknown' or s."absenceCounts")
        and (s.id in (select id from settled) or s.step = 'sent' and 0 = (
          -- A count uses an index for each row. A plan for "not exists" would read the whole
          -- history into memory.
          select count(*) from sync.outbox_attempts a
          where a.outbox_id = s.id and a.claim_no = s."claimNo" and a.step in ('sent', 'checked')))
      order by s.id
    )
    select *, false as locked
    from settled
    union all
    select o.id, o.client, o.family, o.reference, o.status, false, true
    from s
    join fulfilment.outbox o on o.id = s.id
    where s.id not in (select id from free)`.execute(trx);
  return rows;
}

/** A follow-up row, in the lane of the row that it follows. */
export interface FollowUpRow {
  readonly client: string;
  readonly kind: string;
  readonly reference: string;
  readonly payload: Json;
}

/** Inserts follow-up rows in the given order. */
export async function insertFollowUps(
  trx: Transaction<DB>,
  rows: readonly FollowUpRow[],
): Promise<void> {
  if (rows.length === 0) return;
  await sql`
    insert into fulfilment.outbox (client, kind, reference, payload)
    select r.client, r.kind, r.reference, coalesce(r.payload, 'null')
    from json_to_recordset(${toStorableJson(rows)}::json)
      as r (client text, kind text, reference text,
      payload jsonb)`.execute(trx);
}

/**
 * Maximum number of outcomes that one transaction enters. It bounds how long the feed is locked.
 */
const maxOutcomes = 1_000;

/**
 * Enters outcomes of outbox rows that were noted into the feed. It must be the last statement of
 * its transaction: all other writers of the feed wait until the commit.
 * @returns the lanes of rows that no longer hold them. Release these lanes after the commit: a
 *   claim that ran meanwhile may have postponed the rows behind them.
 */
export async function enterNotedOutcomes(trx: Transaction<DB>): Promise<Lane[]> {
  const { rows } = await sql<Lane>`
    with noted as (
      delete from sync.outbox_outcomes
      where id in (
        select id
        from sync.outbox_outcomes
        order by id
        limit ${maxOutcomes}
        for update skip locked)
      returning id, client, outbox_id, changed_columns
    ), entered as (
      insert into fulfilment.changes (client, entity, id, operation, changed_columns)
      select client, 'outbox', outbox_id, 'updated', changed_columns
      from noted
      order by id
    )
    select o.client, o.family, o.reference
    from noted n
    -- One by one: as a join, a plan that expects few rows would read the whole outbox.
    cross join lateral (
      select b.client, b.family, b.reference, b.kind, b.status, b.next_attempt_at
      from fulfilment.outbox b
      where b.id = n.outbox_id
      limit 1
    ) o
    where o.status in ('done', 'cancelled') or ${letsPass('o')}`.execute(trx);
  return rows;
}

/**
 * Enters noted outcomes, in a transaction of its own. Without any, it locks nothing. Returns as
 * `enterNotedOutcomes`.
 */
export async function enterOutcomes(db: Database): Promise<Lane[]> {
  const noted = await db
    .selectFrom('sync.outbox_outcomes')
    .select('id')
    .limit(1)
    .executeTakeFirst();
  return noted === undefined ? [] : inTransaction(db, enterNotedOutcomes);
}

/** Enters noted outcomes and releases lanes, for a worker that does not push. */
export async function sweepOutcomes(db: Database): Promise<void> {
  const { released } = await releaseLanes(db, await enterOutcomes(db));
  if (released > 0) await notifyPushers(db);
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
