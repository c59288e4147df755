import { type Kysely, sql, type Transaction } from 'kysely';
import type { Database } from '../connection/pool.ts';
import type { DB } from '../generated/tables.ts';
import { recordAudit } from './audit.ts';
import type { ClientAccount } from './clients.ts';
import { pausedSince } from './pauses.ts';

export interface JobKey {
  readonly client: string;
  readonly job: string;
}

export interface DueJob extends JobKey {
  /** Milliseconds until the job is due; 0 or less if it is due. */
  readonly inMs: number;
  /** Due time in milliseconds since 1970. Two queued runs with the same due time are duplicates. */
  readonly dueMs: number;
}

/**
 * Finds the due jobs among `jobs` for these clients. The job that is overdue longest comes first. Jobs that are
 * running, paused or held are left out, and so are clients whose account is not the accepted one.
 * @param withinMs also finds jobs that become due within this time; if negative, only jobs that are overdue by more
 * than this
 * @param local jobs that a client hold does not keep from beginning
 */
export async function findDueJobs(
  db: Database,
  jobs: readonly string[],
  clients: readonly ClientAccount[],
  withinMs = 0,
  local: readonly string[] = [],
): Promise<DueJob[]> {
  const { rows } = await sql<DueJob>`
    select j.client, j.job, extract(epoch from j.due_at - sync.clock())::float8 * 1000 as "inMs",
      floor(extract(epoch from j.due_at) * 1000)::float8 as "dueMs"
    from sync.jobs j
    join unnest(${clients.map(({ client }) => client)}::text[], ${clients.map(({ identity }) => identity)}::text[])
      as own (client, identity) on own.client = j.client
    left join sync.clients c on c.client = j.client
    left join sync.leases l on l.client = j.client and l.name = j.job
    where j.job = any(${jobs}::text[]) and j.due_at <= sync.clock() + make_interval(secs => ${withinMs / 1_000})
      and (l.expires_at is null or l.expires_at <= now())
      and (c.client is null
        or (c.identity = own.identity
        and (c.hold_code is null or c.hold_until <= now() or j.job = any(${local}::text[]))))
      and ${pausedSince(sql`j.client`, sql`j.job`)} is null
    order by j.due_at`.execute(db);
  return rows;
}

/** Returns true if a lease has expired: its worker was lost. */
export async function hasAbandonedRuns(db: Database): Promise<boolean> {
  const expired = db.selectFrom('sync.leases').select('name').where('expires_at', '<=', sql<Date>`clock_timestamp()`);
  return (await expired.limit(1).executeTakeFirst()) !== undefined;
}

/**
 * Makes the jobs of lost workers due again. A worker is lost if its lease has expired. Its runs are recorded as
 * abandoned; what they committed stays.
 * @returns the jobs of lost workers
 */
export async function reviveAbandoned(db: Kysely<DB>): Promise<JobKey[]> {
  const { rows } = await sql<JobKey>`select client, job from sync.revive_abandoned()`.execute(db);
  return rows;
}

/** Records runs as abandoned whose leases were just taken from them, by an earlier statement. */
export async function recordAbandonedRuns(trx: Transaction<DB>, lost: readonly JobKey[]): Promise<void> {
  await sql`
    select sync.record_abandoned(${lost.map(({ client }) => client)}::text[],
      ${lost.map(({ job }) => job)}::text[])`.execute(trx);
}

/** Reads the clock that due times are measured by. */
export async function readScheduleClock(db: Database): Promise<Date> {
  const { now } = await db.selectNoFrom(sql<Date>`sync.clock()`.as('now')).executeTakeFirstOrThrow();
  return now;
}

/**
 * The latest due time that the schedule of a job allows. `ifNever` applies to a job that was not scheduled until now.
 */
export interface LatestDueTime extends JobKey {
  readonly due: Date;
  readonly ifNever: Date;
}

/** Moves due times forward if the schedule became shorter than the remaining wait, or if the job was switched on. */
export async function bringDueTimesForward(db: Database, latest: readonly LatestDueTime[]): Promise<void> {
  await sql`
    update sync.jobs j
    set due_at = case when isfinite(j.due_at) then l.due else l.if_never end
    from unnest(${latest.map(({ client }) => client)}::text[], ${latest.map(({ job }) => job)}::text[],
      ${latest.map(({ due }) => due.toISOString())}::timestamptz[],
      ${latest.map(({ ifNever }) => ifNever.toISOString())}::timestamptz[]) as l (client, job, due, if_never)
    where j.client = l.client and j.job = l.job and j.due_at > l.due`.execute(db);
}

/**
 * Moves due times forward after pushes of a client: the polls of `streams` are due at once, those that adapt their
 * interval after the shorter one. Jobs that are off stay off. A locked job is left out: a settlement must not wait.
 */
export async function bringPollsForward(
  trx: Transaction<DB>,
  client: string,
  streams: readonly string[] = [],
): Promise<void> {
  await sql`
    update sync.jobs
    set due_at = case when stream = any(${streams}::text[]) then least(due_at, sync.clock()) else least(due_at,
        greatest(sync.clock(), last_started_at + make_interval(secs => fast_ms / 1000))) end,
      last_push_at = case when slow_ms is not null then now() end
    where (client, job) in (
      select j.client, j.job
      from sync.jobs j
      where j.client = ${client} and isfinite(j.due_at) and (
        (j.stream = any(${streams}::text[]) and j.due_at > sync.clock())
        or (j.slow_ms is not null and (j.last_push_at is null or j.last_push_at < now() - interval '1 minute')))
      for update skip locked)`.execute(trx);
}

/**
 * Makes a job due at once, as an operator asked for.
 * @returns false if there is no such job
 */
export async function requestRun(db: Database, { client, job }: JobKey, by: string): Promise<boolean> {
  return db.transaction().execute(async (trx) => {
    const { numUpdatedRows } = await trx
      .updateTable('sync.jobs')
      .set({ due_at: sql<Date>`least(due_at, sync.clock())` })
      .where('client', '=', client)
      .where('job', '=', job)
      .executeTakeFirst();
    if (numUpdatedRows > 0n) await recordAudit(trx, { by, action: 'run_requested', client, detail: job });
    return numUpdatedRows > 0n;
  });
}
