import { sql } from 'kysely';
import type { Database } from '../connection/pool.ts';
import { leaseSpan } from './leases.ts';
import type { Run } from './ledger.ts';
import type { Cursor, CursorPass, StoredStream } from './stored-stream.ts';

/** The due times of a job of a client with an interval: every `everyMs` milliseconds since 1970, plus `phaseMs`. */
export interface DueInterval {
  readonly everyMs: number;
  readonly phaseMs: number;
}

/** A scheduled run by an interval. */
export interface DueRunRequest {
  readonly client: string;
  readonly job: string;
  /** The stream that the job polls; null if it polls none. */
  readonly stream: string | null;
  readonly identity: string;
  readonly worker: string;
  readonly interval: DueInterval;
  readonly retries: boolean;
  readonly isLocal: boolean;
  /** The newest migration that this program knows. */
  readonly newestMigration: string;
}

/**
 * Starts a run that is due by an interval, in one statement. The function in Postgres does the same as `startRun` in the
 * usual case. For a poll it also returns what is stored of the stream. Returns null, without a change, if the run is not
 * due, has missed due times, is paused, parked, held or under way, if its worker was lost, or if the database was
 * migrated: `startRun` handles that.
 */
export async function startDueRun(db: Database, request: DueRunRequest): Promise<Run | null> {
  const { client, job, worker, retries, isLocal } = request;
  const started = await (request.stream === null ? callStartRun(db, request) : callStartPoll(db, request));
  if (started === undefined) return null;
  const { token, startedAt, stored } = started;
  const lease = { client, name: job, token };
  return { lease, worker, trigger: 'schedule', startedAt, retries, isLocal, wasHeld: false, probing: false, stored };
}

/** The result of a function in Postgres that starts a run. */
interface Started {
  readonly token: number;
  readonly startedAt: Date;
  readonly stored: StoredStream | null;
}

/** Returns SQL: the arguments that both functions have in common. */
const callArguments = ({ client, job, identity, worker, interval, newestMigration }: DueRunRequest) =>
  sql`${client}, ${job}, ${identity}, ${worker}, ${newestMigration}, ${interval.everyMs}, ${interval.phaseMs},
      ${leaseSpan}`;

async function callStartRun(db: Database, request: DueRunRequest): Promise<Started | undefined> {
  const { rows } = await sql<Omit<Started, 'stored'>>`
    select token, started_at as "startedAt"
    from sync.start_due_run(${callArguments(request)})`.execute(db);
  const [started] = rows;
  return started === undefined ? undefined : { ...started, stored: null };
}

async function callStartPoll(db: Database, request: DueRunRequest): Promise<Started | undefined> {
  const { rows } = await sql<
    Omit<Started, 'stored'> & {
      readonly completeAt: Date | null;
      readonly usualFetched: number | null;
      readonly cursors: readonly (Cursor & { readonly pass: CursorPass })[];
      readonly isWaiting: boolean;
    }
  >`
    select token, started_at as "startedAt", complete_at as "completeAt", usual_fetched as "usualFetched",
      cursors, is_waiting as "isWaiting"
    from sync.start_due_poll(${callArguments(request)}, ${request.stream})`.execute(db);
  const [started] = rows;
  if (started === undefined) return undefined;
  const { token, startedAt, completeAt, usualFetched, cursors, isWaiting } = started;
  const freshness = { completeAt, usualFetched };
  const byPass = new Map(cursors.map(({ pass, ...cursor }) => [pass, cursor]));
  return { token, startedAt, stored: { freshness, cursors: byPass, isWaiting } };
}
