import { CodedError, describeError, LeaseLostError, StoppedError, WarehouseError } from '../core/errors.ts';
import type { Database } from '../erp/connect.ts';
import type { LeaseKeeper } from '../erp/leases.ts';
import { finishRun, type Run, type RunEnd, type RunRequest, startRun, type Totals } from '../erp/runs.ts';
import { newTotals } from './pull.ts';

/** What came of a run, for the log and the command line. */
export type RunReport =
  | { readonly status: 'skipped'; readonly reason: 'overlap' | 'not_due'; readonly dueAt: Date | null }
  | { readonly status: 'lost'; readonly totals: Totals; readonly error: LeaseLostError }
  | { readonly status: 'done' | 'stopped' | 'failed'; readonly totals: Totals; readonly error?: unknown };

/** A run under way, as the work inside it sees it. */
export interface RunScope {
  readonly run: Run;
  readonly totals: Totals;
  /** The run before this one was lost with its worker. */
  readonly afterAbandoned: boolean;
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
  if (stop.aborted) return { status: 'stopped', totals: newTotals() };
  const start = await startRun(db, request);
  if (start.kind === 'skipped') return { status: 'skipped', reason: start.reason, dueAt: start.dueAt };
  const { run, afterAbandoned } = start;
  const totals = newTotals();
  const lost = keeper.hold(run.lease);
  try {
    const failure = await outcomeOf(work({ run, totals, afterAbandoned, signal: AbortSignal.any([stop, lost]) }));
    if (failure instanceof LeaseLostError) return { status: 'lost', totals, error: failure };
    const end = endOf(failure);
    await finishRun(db, run, totals, end);
    return { status: end.status, totals, ...(failure === undefined ? {} : { error: failure }) };
  } catch (error) {
    if (error instanceof LeaseLostError) return { status: 'lost', totals, error };
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

function endOf(failure: unknown): RunEnd {
  if (failure === undefined) return { status: 'done' };
  if (failure instanceof StoppedError) return { status: 'stopped' };
  return {
    status: 'failed',
    code: failure instanceof CodedError ? failure.code : 'unexpected',
    message: describeError(failure),
    retryAfterMs: failure instanceof WarehouseError ? (failure.retryAfterMs ?? 0) : 0,
  };
}
