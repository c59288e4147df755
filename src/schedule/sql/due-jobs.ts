import { type Kysely, sql, type Transaction } from 'kysely';
import { recordAudit } from '../../db/audit.ts';
import type { DB } from '../../db/generated/tables.ts';
import type { Database } from '../../db/pool.ts';
import type { JobKey } from '../plan-next.ts';

/**
 * Makes the jobs of lost workers due again. A worker is lost if its lease has expired. Its runs are
 * recorded as abandoned; what they committed stays. Without `only`, jobs that a clock that was set
 * back keeps waiting are made due, too.
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
