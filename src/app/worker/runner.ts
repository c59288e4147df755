import type { Config } from '../../../config/env.ts';
import { toIdentity, type WarehouseClient } from '../../../config/files.ts';
import type { JobName } from '../../../config/jobs.ts';
import type { Schedule } from '../../../config/schedules.ts';
import { jobs } from '../../../jobs/registry.ts';
import type { Database } from '../../erp/connection/pool.ts';
import type { OfferedAccount } from '../../erp/runs/clients.ts';
import type { LeaseKeeper } from '../../erp/runs/leases.ts';
import type { Trigger } from '../../erp/runs/ledger.ts';
import type { NextDue, RunRequest } from '../../erp/runs/start-run.ts';
import { type ClientJob, countMissedTimes, findDueNotBefore, findNextDue, toInterval } from '../../queue/next-due.ts';
import { newServiceClock, newShare, type PullContext } from '../../sync/run/pull-context.ts';
import { type RunReport, type RunScope, runUnderLease } from '../../sync/run/run.ts';
import type { Warehouse } from '../../warehouse/client.ts';
import { errorFields, type Logger } from '../logging/logger.ts';

/** The parts that a run needs. */
export interface RunnerDeps {
  readonly config: Config;
  readonly db: Database;
  readonly keeper: LeaseKeeper;
  readonly warehouses: ReadonlyMap<string, Warehouse>;
  readonly worker: string;
  readonly log: Logger;
  /** Warnings of the last run of each job, so that a warning that every poll repeats is logged once. */
  readonly reportedWarnings: Map<string, string>;
  /** Called after every run, also a skipped or failed one. */
  readonly onRun?: (client: string, job: string, report: RunReport, durationMs: number) => void;
}

/** A piece of work that runs for one client under a lease. */
export interface Work {
  /** Name of the lease, and job of the run in `sync.runs`: the name of a job or of a command. */
  readonly name: string;
  /** The stream that it polls; undefined if it polls none. */
  readonly stream?: string;
  readonly run: (context: PullContext) => Promise<void>;
  /** The schedule of the job; undefined if it has none. Its due time then stays. */
  readonly schedule?: Schedule;
  /** True if a failed run is tried again before its next due time. */
  readonly retries?: boolean;
  /** True if it sends no request to the service. */
  readonly isLocal?: boolean;
}

/** Returns the client of the configuration with the identity of its account. */
export function toClientIdentity(client: WarehouseClient): OfferedAccount {
  return { client: client.key, identity: toIdentity(client), baseUrl: client.baseUrl.href };
}

/** Runs one job for one client, and logs one line about it. */
export async function runJob(
  deps: RunnerDeps,
  job: JobName,
  client: WarehouseClient,
  trigger: Trigger,
  stop: AbortSignal,
): Promise<RunReport> {
  const { run, stream, retries = false, isLocal = false } = jobs[job];
  const schedule = deps.config.schedules[job];
  const work = {
    name: job,
    ...(stream === undefined ? {} : { stream: stream.name }),
    run,
    schedule,
    retries: retries && trigger === 'schedule',
    isLocal,
  };
  return runWork(deps, work, client, trigger, stop);
}

/** Runs any work for one client under its lease, and logs one line about it. */
export async function runWork(
  deps: RunnerDeps,
  work: Work,
  client: WarehouseClient,
  trigger: Trigger,
  stop: AbortSignal,
): Promise<RunReport> {
  const { db, keeper, log } = deps;
  const startedAtMs = performance.now();
  const request = toRunRequest(deps, work, client, trigger);
  const jobKey = { client: client.key, job: work.name };
  const report = await runUnderLease(db, keeper, request, stop, async (scope) => {
    if (scope.afterAbandoned) log.warn({ ...jobKey, event: 'run_abandoned' });
    if (scope.missed > 0) log.warn({ ...jobKey, event: 'turns_missed', missed: scope.missed });
    const context = createPullContext(deps, work, client, scope);
    // The probe of a client hold first sends one cheap request, before many requests run into the same timeout.
    if (scope.run.probing) await context.warehouse.signIn(scope.signal);
    await work.run(context);
  });
  const durationMs = Math.round(performance.now() - startedAtMs);
  logReport(log, jobKey, report, durationMs, hasNewWarnings(deps.reportedWarnings, request, report));
  deps.onRun?.(client.key, work.name, report, durationMs);
  return report;
}

/** Builds the request for the lease and the record of a run. */
function toRunRequest(deps: RunnerDeps, work: Work, client: WarehouseClient, trigger: Trigger): RunRequest {
  return {
    ...toClientIdentity(client),
    job: work.name,
    stream: work.stream ?? null,
    worker: deps.worker,
    trigger,
    nextDue: toNextDue(work.schedule, { client: client.key, job: work.name }),
    retries: work.retries ?? false,
    isLocal: work.isLocal ?? false,
  };
}

/** Returns how a run moves the due time of a job with this schedule. */
function toNextDue(schedule: Schedule | undefined, clientJob: ClientJob): NextDue {
  switch (schedule?.kind) {
    case 'every':
      return { kind: 'interval', ...toInterval(schedule, clientJob) };
    case 'cron':
      return {
        kind: 'computed',
        findNext: (now) => findNextDue(schedule, now, clientJob),
        countMissed: (due, now) => countMissedTimes(schedule, due, now),
      };
    case 'on-request':
      return { kind: 'never' };
    default:
      // A job that is off at this worker may be scheduled at another one.
      return { kind: 'stays' };
  }
}

/**
 * Creates the context in which the work of a run reads from the service.
 * @throws TypeError if the client has no service
 */
function createPullContext(
  { config, db, warehouses }: RunnerDeps,
  { name, schedule }: Work,
  client: WarehouseClient,
  { run, totals, end, signal }: RunScope,
): PullContext {
  const warehouse = warehouses.get(client.key);
  if (warehouse === undefined) throw new TypeError(`client ${client.key} has no service`);
  const key = { client: client.key, job: name };
  return {
    client: client.key,
    identity: toIdentity(client),
    zone: client.timeZone,
    db,
    warehouse,
    run,
    dueNotBefore: (earliest, gapMs) =>
      schedule === undefined ? null : findDueNotBefore(schedule, earliest, gapMs, key),
    signal,
    timeoutMs: config.HTTP_TIMEOUT_MS,
    requestsPerSecond: config.REQUESTS_PER_SECOND ?? null,
    lookbackDays: config.LOOKBACK_DAYS,
    retentionDays: config.RETENTION_DAYS,
    personalDataDays: config.PERSONAL_DATA_DAYS ?? null,
    compare: 'raw',
    state: { totals, end, service: newServiceClock(), share: newShare(), hasWritten: false },
  };
}

/** Returns true if a run has warnings, and if they differ from those of the run before. */
function hasNewWarnings(
  reported: Map<string, string>,
  { client, job }: { client: string; job: string },
  report: RunReport,
): boolean {
  if (report.status === 'skipped') return false;
  const [key, warnings] = [JSON.stringify([client, job]), JSON.stringify(report.totals.warnings)];
  const before = reported.get(key) ?? '[]';
  reported.set(key, warnings);
  return warnings !== before && warnings !== '[]';
}

/** Logs how a run ended: at error if it failed or was abandoned, at warn if it has new warnings. */
function logReport(
  log: Logger,
  jobKey: { readonly client: string; readonly job: string },
  report: RunReport,
  durationMs: number,
  isNew: boolean,
): void {
  if (report.status === 'skipped') {
    const level = report.reason === 'not_due' ? 'debug' : 'info';
    log[level]({ ...jobKey, event: 'run_skipped', reason: report.reason, dueAt: report.dueAt });
    return;
  }
  const { warnings, ...counts } = report.totals;
  const fields = {
    ...jobKey,
    event: `run_${report.status}`,
    leaseKey: report.leaseKey,
    durationMs,
    ...counts,
    ...(warnings.length > 0 ? { warnings } : {}),
  };
  const failed = report.status === 'failed' || report.status === 'abandoned';
  const problem = report.error === undefined || report.status === 'stopped' ? {} : errorFields(report.error);
  if (failed) log.error({ ...fields, ...problem });
  else if (isNew || counts.quarantined > 0) log.warn(fields);
  else log.info(fields);
}
