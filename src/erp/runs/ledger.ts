import { sql, type Transaction } from 'kysely';
import { pauses } from '../../core/backoff.ts';
import type { ClientHold } from '../../core/client-hold.ts';
import { LeaseLostError } from '../../core/errors.ts';
import type { Database } from '../connection/pool.ts';
import { repeatAfterConflict } from '../connection/transaction.ts';
import type { DB } from '../generated/tables.ts';
import type { Run } from './start-run.ts';

/** The numbers of a run so far. */
export interface Totals {
  pages: number;
  fetched: number;
  created: number;
  updated: number;
  removed: number;
  /** Resources that were found unchanged. */
  unchanged: number;
  stale: number;
  /** Resources that could not be decoded and were not yet in quarantine. */
  quarantined: number;
  warnings: string[];
}

export type RunEnd = (
  | { readonly status: 'done' | 'stopped' }
  /** The run could not do its work yet. */
  | { readonly status: 'skipped'; readonly reason: string; readonly opensAt: Date }
  | {
      readonly status: 'failed';
      readonly code: string;
      readonly message: string;
      readonly retryAfterMs: number;
      /** The hold that the failure places on the client; null if it places none. */
      readonly hold: ClientHold | null;
    }
) & {
  /** When the next run is due, if the run itself decides that. */
  readonly dueAt?: Date | null;
  /** The poll that the run has completed; it counts only if the run is done. */
  readonly poll?: CompletedPoll | null;
};

/** A complete poll of a stream. */
export interface CompletedPoll {
  readonly stream: string;
  /** Start of the poll, by the service's clock. */
  readonly beganAt: Date;
  /** Newest date on any resource that it received; null if there was none. */
  readonly newestSource: Date | null;
  /** A span of days that the service no longer lists and that no poll had read; null if there is none. */
  readonly gap: { readonly from: Date; readonly to: Date } | null;
}

/** Jobs other than polls that read streams. */
export const rescanJobs = ['reconcile', 'backfill', 'refetch', 'replay'];

/** The share of one poll in the moving average of fetched resources. */
const averageShare = 0.1;

/**
 * Returns true if the run wrote or quarantined anything, or found stale readings. Other runs get no row in the ledger.
 */
const isEventful = ({ created, updated, removed, quarantined, stale }: Totals) =>
  created + updated + removed + quarantined + stale > 0;

/** Writes the ledger row of a run under way, if the run has done something. Call it in the transaction of a page. */
export async function recordProgress(
  { trx, run }: { readonly trx: Transaction<DB>; readonly run: Run },
  totals: Totals,
): Promise<void> {
  if (!isEventful(totals)) return;
  const { client, name: job, key } = run.lease;
  await sql`
    select sync.record_run(${client}, ${job}, ${key}, ${run.trigger}, ${run.worker}, ${run.startedAt}, 'running',
      ${JSON.stringify(totals)})`.execute(trx);
}

/**
 * Ends a run, whatever its end: ledger, state of the job, freshness of the stream, client hold and lease, in one
 * statement.
 * @throws LeaseLostError if the run no longer holds its lease
 */
export async function endRun(db: Database, run: Run, totals: Totals, end: RunEnd): Promise<void> {
  const { client, name: job, key } = run.lease;
  const { rows } = await repeatAfterConflict(() =>
    sql<{ ended: boolean }>`
      select sync.end_run(${client}, ${job}, ${key}, ${JSON.stringify(toEndFacts(run, end))},
        ${JSON.stringify(totals)}) as ended`.execute(db),
  );
  if (rows[0]?.ended !== true) throw new LeaseLostError(client, job);
}

/** Returns the parameter `run_end` of sync.end_run. */
function toEndFacts({ trigger, worker, startedAt, isLocal, wasHeld, isProbe }: Run, end: RunEnd): object {
  const { status, dueAt, poll } = end;
  const run = { trigger, worker, started_at: startedAt, is_local: isLocal, was_held: wasHeld, is_probe: isProbe };
  const facts = { ...run, status, due: dueAt, rescan_jobs: rescanJobs };
  if (status === 'skipped') return { ...facts, reason: end.reason };
  if (status === 'failed') {
    const { code, message, retryAfterMs, hold } = end;
    const retry = { retry_ms: pauses.failedRun.firstMs, max_retry_ms: pauses.failedRun.longestMs };
    return {
      ...{ ...facts, ...retry, error_code: code, error: message, retry_after_ms: retryAfterMs },
      ...{ hold_code: hold?.code, hold_ms: hold?.pause.firstMs, max_hold_ms: hold?.pause.longestMs },
    };
  }
  if (poll == null) return facts;
  const { stream, beganAt, newestSource, gap } = poll;
  const read = { stream, poll_began_at: beganAt, newest_source: newestSource, average_share: averageShare };
  return { ...facts, ...read, gap_from: gap?.from, gap_to: gap?.to };
}
