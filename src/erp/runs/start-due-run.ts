import { sql } from 'kysely';
import type { Database } from '../connection/pool.ts';
import { leaseSpan } from './leases.ts';
import type { Run } from './ledger.ts';

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
 * Starts a run that is due by an interval, in one statement. The function in Postgres does the same as `startRun` in the
 * usual case. Returns null, without a change, if it is not due, has missed due times, is
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
