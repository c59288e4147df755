/**
 * One run of a job for one client: start, work, end. It works under a lease. A run that loses its lease stops, and cannot
 * write any more.
 */

import type { Config } from '../../../config/env.ts';
import type { Schedule } from '../../../config/schedules.ts';
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
import type { OfferedAccount } from '../../erp/runs/clients.ts';
import { findDueNotBefore } from '../../erp/runs/due-times.ts';
import type { LeaseKeeper } from '../../erp/runs/leases.ts';
import { endRun, type RunEnd, type Totals } from '../../erp/runs/ledger.ts';
import { type Run, type SkippedStart, startRun, type Trigger } from '../../erp/runs/start-run.ts';
import type { Warehouse } from '../../warehouse/client.ts';
import { newRunState, newTotals, type PullContext, type WorkEnd } from './pull-context.ts';

/** The parts that a run needs. */
export interface RunDeps {
  readonly config: Config;
  readonly db: Database;
  readonly keeper: LeaseKeeper;
  readonly warehouses: ReadonlyMap<string, Warehouse>;
  readonly worker: string;
}

/** A piece of work that runs for one client under a lease. */
export interface Work {
  /** Name of the lease, and job of the run in `sync.runs`: the name of a job or of a command. */
  readonly name: string;
  /** The stream that it polls; undefined if it polls none. */
  readonly stream?: { readonly name: string };
  readonly run: (context: PullContext) => Promise<void>;
  /** The schedule of the job; undefined if it has none. Its due time then stays. */
  readonly schedule?: Schedule;
  /** True if it sends no request to the service. */
  readonly isLocal?: boolean;
}

/** A client for which a run is made. */
export interface RunClient extends OfferedAccount {
  /** Zone of the service's times without a zone. */
  readonly zone: string;
}

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

/**
 * Makes a run, and records how it ended. An error of the work is reported, not thrown. Throws only if the database could
 * not take the record; then the lease expires and the run counts as abandoned.
 * @param onStart called when the run has begun
 */
export async function makeRun(
  deps: RunDeps,
  work: Work,
  client: RunClient,
  trigger: Trigger,
  stop: AbortSignal,
  onStart: (run: Run) => void,
): Promise<RunReport> {
  if (stop.aborted) return { status: 'stopped', totals: newTotals(), leaseKey: null };
  const { config, db, keeper, worker, warehouses } = deps;
  const warehouse = warehouses.get(client.client);
  if (warehouse === undefined) throw new TypeError(`client ${client.client} has no service`);
  const { name: job, stream, schedule, isLocal = false } = work;
  const start = await startRun(db, {
    ...client,
    job,
    stream: stream?.name ?? null,
    worker,
    trigger,
    schedule,
    isLocal,
  });
  if (start.kind === 'skipped') return { ...start, status: 'skipped' };
  const { run } = start;
  onStart(run);
  const signal = AbortSignal.any([stop, keeper.keep(run.lease)]);
  const context: PullContext = {
    ...{ client: client.client, identity: client.identity, zone: client.zone, config, db, warehouse, run, signal },
    dueNotBefore: (earliest, gapMs) =>
      schedule === undefined ? null : findDueNotBefore(schedule, earliest, gapMs, { client: client.client, job }),
    compare: 'raw',
    state: newRunState(),
  };
  const { totals } = context.state;
  const facts = { totals, leaseKey: run.lease.key };
  try {
    const failure = await catchFailure(doWork(work, context));
    if (failure instanceof LeaseLostError) return { ...facts, status: 'abandoned', error: failure };
    const end = toRunEnd(failure, context.state.end);
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

/** Works. The probe of a client hold first sends one cheap request, before many requests run into the same timeout. */
async function doWork(work: Work, context: PullContext): Promise<void> {
  if (context.run.isProbe) await context.warehouse.signIn(context.signal);
  await work.run(context);
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
