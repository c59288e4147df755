import { type Kysely, sql, type Transaction } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';
import type { Database } from '../../db/pool.ts';
import type { ClientAccount } from '../../service/sql/clients.ts';
import { isRunHeld } from '../../service/sql/service-health.ts';
import type { JobKey } from '../plan-next.ts';
import { recordAudit } from './audit.ts';

/** A job that is due, or will be. */
export interface DueJob extends JobKey {
  /** Milliseconds until the job is due; 0 or less if it is due. */
  readonly inMs: number;
  /** Due time in milliseconds since 1970. Two queued runs with the same due time are duplicates. */
  readonly dueMs: number;
}

/** Which due jobs to find. */
export interface DueFilter {
  readonly jobs: readonly string[];
  readonly clients: readonly ClientAccount[];
  readonly worker: string;
  /**
   * Also finds jobs that become due within this time; if negative, only jobs that are overdue by
   * more than this.
   */
  readonly withinMs?: number;
  /** Jobs that a client hold does not keep from beginning. */
  readonly local?: readonly string[];
}

/**
 * Finds due jobs. The job that is overdue longest comes first. Jobs that are running, paused or
 * held are left out, and so are clients whose account is not the accepted one: sync.start_run would
 * refuse them.
 */
export async function findDueJobs(
  db: Database,
  { jobs, clients, worker, withinMs = 0, local = [] }: DueFilter,
): Promise<DueJob[]> {
  const { rows } = await sql<DueJob>`
    select j.client, j.job, extract(epoch from j.next_at - sync.clock())::float8 * 1000 as "inMs",
      floor(extract(epoch from j.next_at) * 1000)::float8 as "dueMs"
    from sync.jobs j
    join unnest(${clients.map(({ client }) => client)}::text[],
      ${clients.map(({ identity }) => identity)}::text[])
      as own (client, identity) on own.client = j.client
    join sync.clients c on c.client = j.client and c.identity = own.identity
    left join sync.leases l on l.client = j.client and l.name = j.job
    where j.job = any(${jobs}::text[])
      and j.next_at <= sync.clock() + make_interval(secs => ${withinMs / 1_000})
      and (l.expires_at is null or l.expires_at <= now())
      and (j.job = any(${local}::text[])
        or not ${isRunHeld(sql`j.client`, sql`j.job`, worker)})
      and not exists (select from sync.pauses p where p.client in ('', j.client) and p.job = j.job)
    order by j.next_at`.execute(db);
  return rows;
}

/**
 * Makes the jobs of lost workers due again. A worker is lost if its lease has expired. Its runs are
 * recorded as abandoned; what they committed stays.
 * @param only the only job to look at; null: all
 * @returns the jobs of lost workers
 */
export async function reviveAbandoned(
  db: Kysely<DB>,
  only: JobKey | null = null,
): Promise<JobKey[]> {
  const { rows } = await sql<JobKey>`
    select client, job
    from sync.revive_abandoned(${only?.client ?? null}, ${only?.job ?? null})`.execute(db);
  return rows;
}

/** Records runs as abandoned whose leases were just taken from them, by an earlier statement. */
export async function recordAbandonedRuns(
  trx: Transaction<DB>,
  lost: readonly JobKey[],
): Promise<void> {
  await sql`
    select sync.record_abandoned(${lost.map(({ client }) => client)}::text[],
      ${lost.map(({ job }) => job)}::text[])`.execute(trx);
}

/** Reads the clock that due times are measured by. */
export async function readScheduleClock(db: Database): Promise<Date> {
  const { now } = await db
    .selectNoFrom(sql<Date>`sync.clock()`.as('now'))
    .executeTakeFirstOrThrow();
  return now;
}

/** A job that must have a row in sync.jobs. */
export interface WantedJob extends JobKey {
  /** The stream that the job polls; null if it polls none. */
  readonly stream: string | null;
  /**
   * Due time of a job that was not scheduled until now. Null: at once. `never`: not by schedule.
   */
  readonly due: Date | 'never' | null;
  /** The latest due time that the schedule allows; undefined if it has no bound. */
  readonly latest?: Date | undefined;
}

/**
 * Inserts a row for each job that has none. Moves due times forward that are later than the
 * schedule allows.
 */
export async function ensureJobs(db: Kysely<DB>, wanted: readonly WantedJob[]): Promise<void> {
  const dues = wanted.map(({ due }) =>
    due === 'never' ? 'infinity' : (due?.toISOString() ?? null),
  );
  const latest = wanted.map(({ latest }) => latest?.toISOString() ?? null);
  await sql`
    with wanted as (
      select w.client, w.job, w.stream, coalesce(w.due, sync.clock()) as due, w.latest
      from unnest(${wanted.map(({ client }) => client)}::text[],
        ${wanted.map(({ job }) => job)}::text[],
        ${wanted.map(({ stream }) => stream)}::text[], ${dues}::timestamptz[],
          ${latest}::timestamptz[])
        as w (client, job, stream, due, latest)
    ), added as (
      insert into sync.jobs (client, job, stream, next_at)
      select w.client, w.job, w.stream, w.due
      from wanted w
      where not exists (select from sync.jobs j where j.client = w.client and j.job = w.job)
      order by w.client, w.job
      on conflict do nothing
    ), leases as (
      insert into sync.leases (client, name, key)
      select w.client, w.job, 0
      from wanted w
      where not exists (select from sync.leases l where l.client = w.client and l.name = w.job)
      order by w.client, w.job
      on conflict do nothing
    )
    update sync.jobs j
    set next_at = case when isfinite(j.next_at) then w.latest else w.due end
    from wanted w
    where j.client = w.client and j.job = w.job and j.next_at > w.latest`.execute(db);
}

/**
 * Makes a job due at once, as an operator asked for.
 * @returns false if there is no such job
 */
export async function requestRun(
  db: Database,
  { client, job }: JobKey,
  by: string,
): Promise<boolean> {
  return db.transaction().execute(async (trx) => {
    const { numUpdatedRows } = await trx
      .updateTable('sync.jobs')
      .set({ next_at: sql<Date>`least(next_at, sync.clock())` })
      .where('client', '=', client)
      .where('job', '=', job)
      .executeTakeFirst();
    if (numUpdatedRows > 0n)
      await recordAudit(trx, { by, action: 'run_requested', client, detail: job });
    return numUpdatedRows > 0n;
  });
}

/**
 * Makes the jobs due that look up packages, for those clients of which look-ups are due. A failed
 * job keeps the time of its retry. One that is off, or runs once a day, keeps its
 * due time.
 */
export async function makeParcelJobsDue(db: Kysely<DB>, clients: readonly string[]): Promise<void> {
  // A page must not wait for a row that is locked: the job then begins at its due time.
  await sql`
    update sync.jobs
    set next_at = sync.clock()
    where (client, job) in (
      select j.client, j.job
      from sync.jobs j
      where j.client = any(${clients}::text[]) and j.job = 'pull-parcels' and isfinite(j.next_at)
        and j.next_at > sync.clock() and j.last_outcome is distinct from 'failed'
        and (j.last_finished_at is null or j.next_at < j.last_finished_at + interval '23 hours')
        and exists (
          select from sync.waiting_reads r
          where r.client = j.client and r.resource = 'parcels' and r.next_at <= sync.clock())
      for update skip locked)`.execute(db);
}
