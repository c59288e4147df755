/**
 * Queries for status, pages, metrics and doctor. They only read.
 */

import { sql } from 'kysely';
import type { Database } from '../connection/pool.ts';
import { pausedSince } from '../runs/pauses.ts';

/** The state of one job of one client. Times are by the database's clock. */
export interface JobStatus {
  readonly client: string;
  readonly job: string;
  /** The stream that it polls; null if it polls none. */
  readonly stream: string | null;
  readonly running: boolean;
  readonly dueAt: Date | null;
  readonly lastStartedAt: Date | null;
  readonly lastSuccessAt: Date | null;
  /** Seconds since the last success; null before the first. */
  readonly lagSeconds: number | null;
  readonly lastFetched: number;
  readonly lastChanged: number;
  readonly lastOutcome: string | null;
  readonly lastError: string | null;
  readonly consecutiveFailures: number;
  /** End of the first of these failures; null if there are none. */
  readonly failingSince: Date | null;
  /** True if the job failed again after a poll of another stream was done. */
  readonly failedAlone: boolean;
  readonly quarantined: number;
  readonly warnings: readonly string[];
  /** When an operator paused the job; null if it is not paused. */
  readonly pausedSince: Date | null;
  /** Number of runs that were skipped or missed so far, and the time and reason of the last one. */
  readonly skips: number;
  readonly lastSkipAt: Date | null;
  readonly lastSkipReason: string | null;
}

/** Reads the state of every job that was ever registered, by client. */
export async function readJobStatus(db: Database): Promise<JobStatus[]> {
  return db
    .selectFrom('sync.jobs as j')
    .leftJoin('sync.leases as l', (join) => join.onRef('l.client', '=', 'j.client').onRef('l.name', '=', 'j.job'))
    .select((eb) => [
      'j.client',
      'j.job',
      'j.stream',
      sql<boolean>`coalesce(l.expires_at > now(), false)`.as('running'),
      sql<Date | null>`case when isfinite(j.due_at) then j.due_at end`.as('dueAt'),
      'j.last_started_at as lastStartedAt',
      'j.last_success_at as lastSuccessAt',
      sql<number | null>`extract(epoch from now() - j.last_success_at)::float8`.as('lagSeconds'),
      'j.last_fetched as lastFetched',
      'j.last_changed as lastChanged',
      'j.last_outcome as lastOutcome',
      'j.last_error as lastError',
      'j.consecutive_failures as consecutiveFailures',
      'j.failing_since as failingSince',
      'j.failed_alone as failedAlone',
      'j.warnings',
      'j.skips',
      'j.last_skip_at as lastSkipAt',
      'j.last_skip_reason as lastSkipReason',
      sql<Date | null>`${pausedSince(sql`j.client`, sql`j.job`)}`.as('pausedSince'),
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
  const { now } = await db.selectNoFrom(sql<Date>`clock_timestamp()`.as('now')).executeTakeFirstOrThrow();
  return now;
}
