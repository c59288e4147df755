import { type Kysely, sql } from 'kysely';
import type { Database } from './connect.ts';
import type { DB } from './rows.ts';

export interface DueJob {
  readonly client: string;
  readonly job: string;
}

/**
 * Which of `clients` are due for which of `jobs`, longest overdue first. Those under way are left out.
 * @param overdueMs only those due for at least so long: what the queue should have delivered by then
 */
export async function dueJobs(
  db: Database,
  jobs: readonly string[],
  clients: readonly string[],
  overdueMs = 0,
): Promise<DueJob[]> {
  const { rows } = await sql<DueJob>`
    select j.client, j.job from sync.jobs j
    left join sync.leases l on l.client = j.client and l.name = j.job
    where j.job = any(${jobs}::text[]) and j.client = any(${clients}::text[])
      and j.due_at <= now() - make_interval(secs => ${overdueMs / 1_000})
      and (l.expires_at is null or l.expires_at <= now())
    order by j.due_at`.execute(db);
  return rows;
}

/**
 * Makes the jobs of lost workers due again: their lease ran out without being given back. Their runs are recorded as
 * abandoned; what those committed stays.
 * @param only looks at this one alone
 * @returns those found
 */
export async function reviveAbandoned(db: Kysely<DB>, only?: DueJob): Promise<DueJob[]> {
  const restriction = only === undefined ? sql`` : sql`and client = ${only.client} and name = ${only.job}`;
  const { rows } = await sql<DueJob>`
    with lost as (
      update sync.leases set holder = null, expires_at = null
      where expires_at <= clock_timestamp() ${restriction}
      returning client, name
    ), closed as (
      update sync.runs r set status = 'abandoned', finished_at = now()
      from lost where r.client = lost.client and r.job = lost.name and r.status = 'running'
    )
    update sync.jobs j set due_at = now(), last_finished_at = now(), last_outcome = 'abandoned'
    from lost where j.client = lost.client and j.job = lost.name
    returning j.client, j.job`.execute(db);
  return rows;
}

/** The database's clock, by which all is due. */
export async function databaseNow(db: Database): Promise<Date> {
  const { rows } = await sql<{ now: Date }>`select now() as now`.execute(db);
  return rows[0]?.now as Date;
}

/** Brings a due time forward where the schedule became shorter than what is left to wait. */
export async function bringForward(db: Database, job: string, latest: (now: Date) => Date): Promise<void> {
  const now = await databaseNow(db);
  await sql`update sync.jobs set due_at = ${latest(now)} where job = ${job} and due_at > ${latest(now)}`.execute(db);
}
