import { type Kysely, sql, type Transaction } from 'kysely';
import type { Database } from '../connection/pool.ts';
import type { DB } from '../generated/tables.ts';
import { recordAudit } from './audit.ts';
import type { Own } from './clients.ts';
import { pausedSince } from './pauses.ts';

export interface JobKey {
  readonly client: string;
  readonly job: string;
}

export interface DueJob extends JobKey {
  /** Milliseconds until it is due; 0 or less: it is. */
  readonly inMs: number;
  /** When it is due, milliseconds since 1970: two queued runs for one due time are one too many. */
  readonly dueMs: number;
}

/**
 * Which of these clients are due for which of `jobs`, longest overdue first. Those under way, paused or held are left out,
 * and clients that come from another service than the one that was accepted.
 * @param withinMs also those that will be due within this time; negative: only those overdue by more than this
 * @param local jobs that are not held back with their client
 */
export async function dueJobs(
  db: Database,
  jobs: readonly string[],
  clients: readonly Own[],
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

/**
 * Makes the jobs of lost workers due again: their lease ran out without being given back. Their runs are recorded as
 * abandoned; what those committed stays.
 * @param only looks at this one alone
 * @returns those found
 */
export async function reviveAbandoned(trx: Transaction<DB>, only?: JobKey): Promise<JobKey[]> {
  // Of all leases, one whose row is locked is left to the next sweep: a statement that hangs must not keep the others.
  const chosen =
    only === undefined
      ? sql<boolean>`(l.client, l.name) in (
          select f.client, f.name from sync.leases f where f.expires_at <= clock_timestamp() for update skip locked)`
      : sql<boolean>`l.client = ${only.client} and l.name = ${only.job}`;
  const lost = await trx
    .updateTable('sync.leases as l')
    .set({ holder: null, expires_at: null })
    .where('l.expires_at', '<=', sql<Date>`clock_timestamp()`)
    .where(chosen)
    .returning(['l.client', 'l.name as job'])
    .execute();
  await recordAbandoned(trx, lost);
  return lost;
}

/**
 * Records runs as abandoned whose leases were just taken from them. A statement of its own, after that one: it may have
 * waited for a page of such a run to be committed, and what was committed meanwhile only a later statement sees.
 */
export async function recordAbandoned(trx: Transaction<DB>, lost: readonly JobKey[]): Promise<void> {
  if (lost.length === 0) return;
  await sql`
    with lost as (
      select *
      from unnest(${lost.map(({ client }) => client)}::text[],
        ${lost.map(({ job }) => job)}::text[]) as l (client, job)
    ), closed as (
      update sync.runs r
      set status = 'abandoned', finished_at = now()
      from lost
      where r.client = lost.client and r.job = lost.job and r.status = 'running'
    )
    update sync.jobs j
    set due_at = sync.clock(), last_finished_at = now(), last_outcome = 'abandoned'
    from lost
    where j.client = lost.client and j.job = lost.job`.execute(trx);
}

/** The clock by which all is due. */
export async function scheduleClock(db: Database): Promise<Date> {
  const { now } = await db.selectNoFrom(sql<Date>`sync.clock()`.as('now')).executeTakeFirstOrThrow();
  return now;
}

/** When a job has to be due at the latest; `ifNever` where it was not to come by itself until now. */
export interface LatestDue extends JobKey {
  readonly due: Date;
  readonly ifNever: Date;
}

/** Brings due times forward where the schedule became shorter than what is left to wait, or was switched on. */
export async function bringForward(db: Database, latest: readonly LatestDue[]): Promise<void> {
  await sql`
    update sync.jobs j
    set due_at = case when isfinite(j.due_at) then l.due else l.if_never end
    from unnest(${latest.map(({ client }) => client)}::text[], ${latest.map(({ job }) => job)}::text[],
      ${latest.map(({ due }) => due.toISOString())}::timestamptz[],
      ${latest.map(({ ifNever }) => ifNever.toISOString())}::timestamptz[]) as l (client, job, due, if_never)
    where j.client = l.client and j.job = l.job and j.due_at > l.due`.execute(db);
}

/** Makes the poll of a stream due at once, unless it is switched off. */
export async function bringPollForward(db: Kysely<DB>, client: string, stream: string): Promise<void> {
  await db
    .updateTable('sync.jobs')
    .set({ due_at: sql<Date>`sync.clock()` })
    .where('client', '=', client)
    .where('stream', '=', stream)
    .where(sql<boolean>`isfinite(due_at)`)
    .where('due_at', '>', sql<Date>`sync.clock()`)
    .execute();
}

/**
 * Makes a job due at once, for a person who does not want to wait for its turn.
 * @returns false where there is no such job
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
