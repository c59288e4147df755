import { sql } from 'kysely';
import type { Database } from '../connection/pool.ts';
import { repeatAfterConflict } from '../connection/transaction.ts';
import { rescanJobs } from '../runs/confirmations.ts';
import { isEventful, type Run, type RunEnd, type Totals } from '../runs/ledger.ts';
import { averageShare, type PollEnd } from './freshness.ts';

/** The end of a poll of a stream. */
export interface StreamPollEnd extends PollEnd {
  readonly stream: string;
}

/** Returns true if a run read everything, wrote nothing and has nothing to say about a client hold. */
export const isQuiet = (run: Run, totals: Totals, end: RunEnd): boolean =>
  end.status === 'done' && !isEventful(totals) && !run.wasHeld && !run.probing;

/**
 * Ends a quiet run that polled a stream, and releases its lease, in one statement. The function in Postgres does the same
 * as `finishRun` in the usual case.
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
