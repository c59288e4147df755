/**
 * One run of a job for one client, under its lease. A run that loses its lease stops, and its writes do not count.
 */

import { holdAfter, maxWaitMs } from '../../core/client-hold.ts';
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
import { finishRun, type Run, type RunEnd, type Totals } from '../../erp/runs/ledger.ts';
import { type RunRequest, type Skipped, startRun } from '../../erp/runs/start-run.ts';
import { newTotals, type RunPlan } from './pull-context.ts';

/** What came of a run, for the log and the command line. */
export type RunReport =
  | ({ readonly status: 'skipped' } & Pick<Skipped, 'reason' | 'because' | 'dueAt'>)
  | (Ran & { readonly status: 'lost'; readonly error: LeaseLostError })
  | (Ran & { readonly status: 'done' | 'stopped' | 'failed'; readonly error?: unknown });

interface Ran {
  readonly totals: Totals;
  /** Token of its lease, by which it is found in sync.runs; null: it never began. */
  readonly token: number | null;
}

/** A run under way, as the work inside it sees it. */
export interface RunScope {
  readonly run: Run;
  readonly totals: Totals;
  /** The run before this one was lost with its worker. */
  readonly afterAbandoned: boolean;
  /** Turns that went by before it could begin. */
  readonly missed: number;
  readonly plan: RunPlan;
  /** Aborted when the run is asked to stop or has lost its lease. */
  readonly signal: AbortSignal;
}

/**
 * Runs `work` for one client and job under its lease, and records how it went. Failures of the work are reported, not
 * thrown; what is thrown is a database that could not take the record (the lease then runs out, and the run is found
 * abandoned).
 */
export async function runUnderLease(
  db: Database,
  keeper: LeaseKeeper,
  request: RunRequest,
  stop: AbortSignal,
  work: (scope: RunScope) => Promise<void>,
): Promise<RunReport> {
  if (stop.aborted) return { status: 'stopped', totals: newTotals(), token: null };
  const start = await startRun(db, request);
  if (start.kind === 'skipped') {
    const { reason, because, dueAt } = start;
    return { status: 'skipped', reason, because, dueAt };
  }
  const { run, afterAbandoned, missed } = start;
  const totals = newTotals();
  const plan: RunPlan = { dueAt: null, record: null };
  const ran = { totals, token: run.lease.token };
  const lost = keeper.hold(run.lease);
  try {
    const signal = AbortSignal.any([stop, lost]);
    const failure = await outcomeOf(work({ run, totals, afterAbandoned, missed, plan, signal }));
    if (failure instanceof LeaseLostError) return { ...ran, status: 'lost', error: failure };
    const end = endOf(failure, plan);
    await finishRun(db, run, totals, end, plan.record);
    if (end.status === 'skipped')
      return { status: 'skipped', reason: 'not_yet', because: end.reason, dueAt: end.opensAt };
    return { ...ran, status: end.status, ...(failure === undefined ? {} : { error: failure }) };
  } catch (error) {
    if (error instanceof LeaseLostError) return { ...ran, status: 'lost', error };
    throw error;
  } finally {
    keeper.drop(run.lease);
  }
}

async function outcomeOf(work: Promise<void>): Promise<unknown> {
  try {
    await work;
    return undefined;
  } catch (error) {
    return error;
  }
}

function endOf(failure: unknown, { dueAt }: RunPlan): RunEnd {
  if (failure === undefined) return { status: 'done', dueAt };
  if (failure instanceof StoppedError) return { status: 'stopped', dueAt };
  if (failure instanceof NotYetError)
    return { status: 'skipped', reason: failure.message, opensAt: failure.dueAt, dueAt };
  return {
    status: 'failed',
    code: failure instanceof CodedError ? failure.code : 'unexpected',
    message: describeError(failure),
    retryAfterMs: failure instanceof WarehouseError ? Math.min(failure.retryAfterMs ?? 0, maxWaitMs) : 0,
    hold: holdAfter(failure),
    dueAt,
  };
}
