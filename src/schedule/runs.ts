/**
 * One run of a job for one client: start, work, end. It works under a lease. A run that loses its
 * lease stops, and cannot write any more.
 */

import { context, ROOT_CONTEXT, SpanStatusCode, trace } from '@opentelemetry/api';
import type { Config } from '../../config/env.ts';
import { toIdentity, type WarehouseClient } from '../../config/files.ts';
import type { JobName } from '../../config/jobs.ts';
import {
  LeaseLostError,
  NotYetError,
  StoppedError,
  toFailure,
  WarehouseError,
} from '../core/errors.ts';
import { errorFields, type Logger } from '../core/logger.ts';
import type { Database } from '../db/pool.ts';
import type { Warehouse } from '../service/client.ts';
import { RunHealth } from '../service/health/run-health.ts';
import type { RunEnd } from './decide-end.ts';
import type { Trigger } from './decide-start.ts';
import type { Jobs } from './job.ts';
import { type JobKey, planNext } from './plan-next.ts';
import {
  newRunState,
  newTotals,
  type RunClient,
  type RunContext,
  type RunReport,
  type RunState,
  type Work,
} from './run.ts';
import { endRun } from './sql/end-run.ts';
import type { LeaseKeeper } from './sql/leases.ts';
import type { Run } from './sql/ledger.ts';
import { startRun } from './sql/start-runs.ts';

/** Makes the spans of runs. It does nothing unless the operator starts an SDK (deploy/otel). */
const tracer = trace.getTracer('fulfilment-sync');

/** The parts that a run of this process needs. */
export interface RunnerDeps {
  readonly config: Config;
  readonly db: Database;
  readonly keeper: LeaseKeeper;
  readonly warehouses: ReadonlyMap<string, Warehouse>;
  readonly worker: string;
  readonly jobs: Jobs;
  readonly log: Logger;
  readonly numberFeed: RunContext['numberFeed'];
  /**
   * Warnings of the last run of each job, so that a warning that every poll repeats is logged once.
   */
  readonly reportedWarnings: Map<string, string>;
  /** Called after every run, also a skipped or failed one. */
  readonly onRun?: (client: string, job: string, report: RunReport, durationMs: number) => void;
}

/** Returns the client of the configuration with the identity of its account. */
export function toClientIdentity(client: WarehouseClient): RunClient {
  return {
    client: client.key,
    identity: toIdentity(client),
    baseUrl: client.baseUrl.href,
    zone: client.timeZone,
  };
}

/** Returns the work of a job, with the schedule that this process has for it. */
export const toWork = ({ jobs, config }: RunnerDeps, job: JobName): Work => ({
  ...jobs[job],
  name: job,
  schedule: config.schedules[job],
});

/** Returns what a run of some work is started for. */
export const toRequest = (
  { worker }: RunnerDeps,
  client: RunClient,
  { name: job, stream, schedule, isLocal = false }: Work,
  trigger: Trigger,
) => ({ ...client, job, stream: stream?.name ?? null, worker, trigger, schedule, isLocal });

/** The client of a run, and what asks for the run. */
interface Cause {
  readonly client: WarehouseClient;
  readonly trigger: Trigger;
}

/** Runs one job for one client, and logs one line about it. */
export const runJob = (
  deps: RunnerDeps,
  job: JobName,
  cause: Cause,
  stop: AbortSignal,
): Promise<RunReport> => runWork(deps, toWork(deps, job), cause, stop);

/** Runs any work for one client under its lease, and logs one line about it. */
export async function runWork(
  deps: RunnerDeps,
  work: Work,
  cause: Cause,
  stop: AbortSignal,
): Promise<RunReport> {
  if (stop.aborted) return { status: 'stopped', totals: newTotals(), leaseKey: null };

  const client = toClientIdentity(cause.client);
  const start = await startRun(deps.db, toRequest(deps, client, work, cause.trigger));
  if (start.kind === 'started') return workOn(deps, work, { client, run: start.run }, stop);

  const report = { ...start, status: 'skipped' } as const;
  noteReport(deps, { client: client.client, job: work.name }, report, 0);
  return report;
}

/** A run that has begun, and its client. */
interface StartedRun {
  readonly client: RunClient;
  readonly run: Run;
}

/**
 * Works for a run that has begun, within a trace of its own. Records, logs and counts how it ends.
 * An error of the work is reported, not thrown. Throws only if the database could not take the
 * record; then the lease expires and the run counts as abandoned.
 */
export async function workOn(
  deps: RunnerDeps,
  work: Work,
  started: StartedRun,
  stop: AbortSignal,
): Promise<RunReport> {
  const { missed, lease } = started.run;
  const jobKey = { client: lease.client, job: lease.name };
  if (missed > 0) deps.log.warn({ ...jobKey, event: 'turns_missed', missed });

  const attributes = { 'fulfilment.client': jobKey.client, 'fulfilment.job': jobKey.job };
  const span = tracer.startSpan(`run ${jobKey.job}`, { root: true, attributes });
  const startedAtMs = performance.now();

  try {
    return await context.with(trace.setSpan(ROOT_CONTEXT, span), async () => {
      const report = await finishRun(deps, work, started, stop);
      noteReport(deps, jobKey, report, Math.round(performance.now() - startedAtMs));
      span.setAttribute('fulfilment.status', report.status);
      if ('error' in report) span.setStatus({ code: SpanStatusCode.ERROR });
      return report;
    });
  } finally {
    span.end();
  }
}

async function finishRun(
  deps: RunnerDeps,
  work: Work,
  { client, run }: StartedRun,
  stop: AbortSignal,
): Promise<RunReport> {
  const { db, keeper } = deps;
  const state = newRunState(run);
  const facts = { totals: state.totals, leaseKey: run.lease.key };
  const signal = AbortSignal.any([stop, keeper.keep(run.lease)]);
  try {
    const context = { ...makeContext(deps, work, { client, run }, signal), state };
    const failure: unknown = await work.run(context).catch((error: unknown) => error);
    if (failure instanceof LeaseLostError) throw failure;

    await context.health.noteEnd(failure, run.wasHeld && state.totals.pages > 0);
    const end = toRunEnd(failure, state.end);
    await endRun(db, run, state.totals, end);

    if (end.status === 'skipped')
      return { status: 'skipped', reason: 'not_yet', because: end.reason, nextAt: end.opensAt };
    return { ...facts, status: end.status, ...(failure === undefined ? {} : { error: failure }) };
  } catch (error) {
    if (error instanceof LeaseLostError) return { ...facts, status: 'abandoned', error };
    throw error;
  } finally {
    keeper.drop(run.lease);
  }
}

function makeContext(
  { config, db, warehouses, numberFeed }: RunnerDeps,
  { name: job, schedule, operation, endTurn = () => undefined }: Work,
  { client: { client, identity, zone }, run }: StartedRun,
  signal: AbortSignal,
): Omit<RunContext, 'state'> {
  const warehouse = warehouses.get(client);
  if (warehouse === undefined) throw new TypeError(`client ${client} has no service`);
  return {
    ...{ client, identity, zone, config, db, warehouse, run, signal, endTurn, numberFeed },
    dueNotBefore: (earliest, gapMs) =>
      schedule === undefined
        ? null
        : planNext(schedule, { client, job }, { kind: 'own-pace', earliest, gapMs }),
    health: new RunHealth({ db, client, job, operation, warehouse, signal, worker: run.worker }),
  };
}

function toRunEnd(failure: unknown, { dueAt: nextAt, poll }: RunState['end']): RunEnd {
  if (failure === undefined) return { status: 'done', nextAt, poll };
  if (failure instanceof StoppedError) return { status: 'stopped', nextAt };
  if (failure instanceof NotYetError)
    return { status: 'skipped', reason: failure.message, opensAt: failure.dueAt, nextAt };
  const { retryAfterMs = 0 } = failure instanceof WarehouseError ? failure : {};
  return { status: 'failed', failure: toFailure(failure), retryAfterMs, nextAt };
}

/**
 * Counts and logs how a run ended: at error if it failed or was abandoned, at warn if it has new
 * warnings, at debug if it changed nothing.
 */
function noteReport(
  { log, reportedWarnings, onRun }: RunnerDeps,
  jobKey: JobKey,
  report: RunReport,
  durationMs: number,
): void {
  onRun?.(jobKey.client, jobKey.job, report, durationMs);
  if (report.status === 'skipped') {
    const level = report.reason === 'not_due' ? 'debug' : 'info';
    log[level]({ ...jobKey, event: 'run_skipped', reason: report.reason, dueAt: report.nextAt });
    return;
  }

  const { status, leaseKey, error } = report;
  const { warnings, ...counts } = report.totals;
  const event = { ...jobKey, event: `run_${status}`, leaseKey, durationMs, ...counts };
  const fields = warnings.length > 0 ? { ...event, warnings } : event;

  const [key, words] = [JSON.stringify(jobKey), JSON.stringify(warnings)];
  const hasNewWarnings = warnings.length > 0 && reportedWarnings.get(key) !== words;
  reportedWarnings.set(key, words);

  if (status === 'failed' || status === 'abandoned')
    log.error({ ...fields, ...errorFields(error) });
  else if (hasNewWarnings || counts.quarantined > 0) log.warn(fields);
  else log[counts.created + counts.updated + counts.removed > 0 ? 'info' : 'debug'](fields);
}
