/** Reads the state of jobs, for status, pages, metrics and doctor. */

import { sql } from 'kysely';
import type { Database } from '../../db/pool.ts';

/**
 * The state of one job of one client. Times are by the database's clock; the lag is the number of
 * seconds since the last success. `failingSince` is the end of the first of its consecutive
 * failures; `failedAlone` is true if it failed again after a poll of another stream was done.
 */
export type JobStatus = Awaited<ReturnType<typeof readJobStatus>>[number];

/** Reads the state of every job that was ever registered, by client. */
export async function readJobStatus(db: Database) {
  const pausedSince = sql<Date | null>`(
    select min(p.since)
    from sync.pauses p
    where p.client in ('', j.client) and p.job = j.job)`;

  return db
    .selectFrom('sync.jobs as j')
    .leftJoin('sync.leases as l', (join) =>
      join.onRef('l.client', '=', 'j.client').onRef('l.name', '=', 'j.job'),
    )
    .select((eb) => [
      'j.client',
      'j.job',
      'j.stream',
      sql<boolean>`coalesce(l.expires_at > now(), false)`.as('running'),
      sql<Date | null>`case when isfinite(j.next_at) then j.next_at end`.as('dueAt'),
      'j.last_started_at as lastStartedAt',
      'j.last_success_at as lastSuccessAt',
      sql<number | null>`extract(epoch from now() - j.last_success_at)::float8`.as('lagSeconds'),
      'j.last_fetched as lastFetched',
      'j.last_changed as lastChanged',
      'j.last_outcome as lastOutcome',
      'j.last_error as lastError',
      'j.last_code as lastCode',
      'j.last_http_status as lastHttpStatus',
      'j.last_operation as lastOperation',
      'j.consecutive_failures as consecutiveFailures',
      'j.failing_since as failingSince',
      'j.failed_alone as failedAlone',
      'j.warnings',
      'j.skips',
      'j.last_skip_at as lastSkipAt',
      'j.last_skip_reason as lastSkipReason',
      pausedSince.as('pausedSince'),
      eb
        .selectFrom('sync.quarantine as q')
        .select((count) => count.fn.countAll<number>().as('count'))
        .whereRef('q.client', '=', 'j.client')
        .where('q.stream', '=', sql<string>`coalesce(j.stream, j.job)`)
        .$asScalar()
        .$notNull()
        .as('quarantined'),
    ])
    .orderBy('j.client')
    .orderBy('j.job')
    .execute();
}

/** Reads the database's clock. */
export async function readDatabaseClock(db: Database): Promise<Date> {
  const { now } = await db
    .selectNoFrom(sql<Date>`clock_timestamp()`.as('now'))
    .executeTakeFirstOrThrow();
  return now;
}
