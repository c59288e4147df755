/**
 * Runs that begin as planned and find nothing new, each in two statements. The functions in Postgres do the same as
 * `startRun` and `finishRun` in the usual case; in any other case those are called.
 */

import { sql } from 'kysely';
import type { Database } from '../connection/pool.ts';
import { repeatAfterConflict } from '../connection/transaction.ts';
import { averageShare, type PollEnd } from '../pull/freshness.ts';
import { rescanJobs } from './confirmations.ts';
import { leaseSpan } from './leases.ts';
import { isEventful, type Run, type RunEnd, type Totals } from './ledger.ts';

/** The due times of a job of a client with an interval: every `everyMs` milliseconds since 1970, plus `phaseMs`. */
export interface DueInterval {
  readonly everyMs: number;
  readonly phaseMs: number;
}

/** A scheduled run by an interval. */
export interface DueRunRequest {
  readonly client: string;
  readonly job: string;
  readonly identity: string;
  readonly worker: string;
  readonly interval: DueInterval;
  readonly retries: boolean;
  readonly isLocal: boolean;
  /** The newest migration that this program was found to fit. */
  readonly checkedMigration: string;
}

/**
 * Starts a run that is due by an interval. Returns null, without a change, if it is not due, has missed due times, is
 * paused, parked, held or under way, if its worker was lost, or if the database was migrated: `startRun` handles that.
 */
export async function startDueRun(db: Database, request: DueRunRequest): Promise<Run | null> {
  const { client, job, identity, worker, interval, checkedMigration, retries, isLocal } = request;
  const { rows } = await sql<{ token: number; startedAt: Date }>`
    select token, started_at as "startedAt"
    from sync.start_due_run(${client}, ${job}, ${identity}, ${worker}, ${checkedMigration}, ${interval.everyMs},
      ${interval.phaseMs}, ${leaseSpan})`.execute(db);
  const [started] = rows;
  if (started === undefined) return null;
  const lease = { client, name: job, token: started.token };
  const { startedAt } = started;
  return { lease, worker, trigger: 'schedule', startedAt, retries, isLocal, wasHeld: false, probing: false };
}

/** The end of a poll of a stream. */
export interface StreamPollEnd extends PollEnd {
  readonly stream: string;
}

/** Returns true if a run read everything, wrote nothing and has nothing to say about a client hold. */
export const isQuiet = (run: Run, totals: Totals, end: RunEnd): boolean =>
  end.status === 'done' && !isEventful(totals) && !run.wasHeld && !run.probing;

/**
 * Ends a quiet run that polled a stream, and releases its lease.
 * @param dueAt when the next run is due, if the run itself decides that
 * @returns false if the run no longer holds its lease; nothing changes then
 */
export async function endQuietPoll(
  db: Database,
  { lease }: Run,
  { pages, fetched, warnings }: Totals,
  dueAt: Date | null,
  poll: StreamPollEnd,
): Promise<boolean> {
  const { rows } = await repeatAfterConflict(() =>
    sql<{ ended: boolean }>`
      select sync.end_quiet_poll(${lease.client}, ${lease.name}, ${lease.token}, ${poll.stream}, ${pages}, ${fetched},
        ${warnings}, ${dueAt}, ${poll.beganAt}, ${poll.newestSource}, ${averageShare}, ${rescanJobs}) as ended`.execute(
      db,
    ),
  );
  return rows[0]?.ended ?? false;
}
