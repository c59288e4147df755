/**
 * One run of a job for one client, under its lease. A run that loses its lease stops, and cannot write any more.
 */

import { longestWaitMs } from '../../core/backoff.ts';
import { toClientHold } from '../../core/client-hold.ts';
import {
  CodedError,
  describeError,
  LeaseLostError,
  NotYetError,
  StoppedError,
  WarehouseError,
} from '../../core/errors.ts';
import type { Database } from '../../erp/connection/pool.ts';
import type { LeaseKeeper } from '../../erp/runs/leases.ts';
import { endRun, type Run, type RunEnd, type Totals } from '../../erp/runs/ledger.ts';
import { type RunRequest, type SkippedStart, startRun } from '../../erp/runs/start-run.ts';
import { newTotals, type WorkEnd } from './pull-context.ts';

/** The result of a run, for the log and the command line. */
export type RunReport =
  | ({ readonly status: 'skipped' } & Pick<SkippedStart, 'reason' | 'because' | 'dueAt'>)
  | (RunFacts & { readonly status: 'abandoned'; readonly error: LeaseLostError })
  | (RunFacts & { readonly status: 'done' | 'stopped' | 'failed'; readonly error?: unknown });

/** The members that all reports of a begun run share. */
interface RunFacts {
  readonly totals: Totals;
  /** Token of its lease, which identifies it in sync.runs; null if it never began. */
  readonly leaseKey: number | null;
}

/** The members of a run that its work needs. */
export interface RunScope {
  readonly run: Run;
  readonly totals: Totals;
  /** True if the previous run was abandoned, because its worker was lost. */
  readonly afterAbandoned: boolean;
  /** Number of due times that were missed before this run began. */
  readonly missed: number;
  readonly end: WorkEnd;
  /** Aborted when the run is asked to stop or has lost its lease. */
  readonly signal: AbortSignal;
}

/**
 * Runs `work` for one client and job under a lease, and records how the run ended. An error of the work is reported,
 * not thrown. Throws only if the database could not take the record; then the lease expires and the run counts as
 * abandoned.
 */
export async function runUnderLease(
  db: Database,
  keeper: LeaseKeeper,
  request: RunRequest,
  stop: AbortSignal,
  work: (scope: RunScope) => Promise<void>,
): Promise<RunReport> {
  if (stop.aborted) return { status: 'stopped', totals: newTotals(), leaseKey: null };
  const start = await startRun(db, request);
  if (start.kind === 'skipped') {
    const { reason, because, dueAt } = start;
    return { status: 'skipped', reason, because, dueAt };
  }
  const { run, afterAbandoned, missed } = start;
  const totals = newTotals();
  const workEnd: WorkEnd = { dueAt: null, poll: null };
  const facts = { totals, leaseKey: run.lease.key };
  const lost = keeper.keep(run.lease);
  try {
    const signal = AbortSignal.any([stop, lost]);
    const failure = await catchFailure(work({ run, totals, afterAbandoned, missed, end: workEnd, signal }));
    if (failure instanceof LeaseLostError) return { ...facts, status: 'abandoned', error: failure };
    const end = toRunEnd(failure, workEnd);
    await endRun(db, run, totals, end);
    if (end.status === 'skipped')
      return { status: 'skipped', reason: 'not_yet', because: end.reason, dueAt: end.opensAt };
    return { ...facts, status: end.status, ...(failure === undefined ? {} : { error: failure }) };
  } catch (error) {
    if (error instanceof LeaseLostError) return { ...facts, status: 'abandoned', error };
    throw error;
  } finally {
    keeper.drop(run.lease);
  }
}

async function catchFailure(work: Promise<void>): Promise<unknown> {
  try {
    await work;
    return undefined;
  } catch (error) {
    return error;
  }
}

function toRunEnd(failure: unknown, { dueAt, poll }: WorkEnd): RunEnd {
  if (failure === undefined) return { status: 'done', dueAt, poll };
  if (failure instanceof StoppedError) return { status: 'stopped', dueAt };
  if (failure instanceof NotYetError)
    return { status: 'skipped', reason: failure.message, opensAt: failure.dueAt, dueAt };
  return {
    status: 'failed',
    code: failure instanceof CodedError ? failure.code : 'unexpected',
    message: describeError(failure),
    retryAfterMs: failure instanceof WarehouseError ? Math.min(failure.retryAfterMs ?? 0, longestWaitMs) : 0,
    hold: toClientHold(failure),
    dueAt,
  };
}
