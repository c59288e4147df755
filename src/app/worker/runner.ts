import type { Config } from '../../../config/env.ts';
import { identityOf, type WarehouseClient } from '../../../config/files.ts';
import type { JobName } from '../../../config/jobs.ts';
import type { Schedule } from '../../../config/schedules.ts';
import { jobs } from '../../../jobs/registry.ts';
import type { Database } from '../../erp/connection/pool.ts';
import type { ClientIdentity } from '../../erp/runs/clients.ts';
import type { LeaseKeeper } from '../../erp/runs/leases.ts';
import type { Trigger } from '../../erp/runs/ledger.ts';
import type { RunRequest } from '../../erp/runs/start-run.ts';
import { dueNotBefore, missedTurns, nextDue } from '../../queue/next-due.ts';
import { newServiceClock, newShare, type PullContext } from '../../sync/run/pull-context.ts';
import { type RunReport, type RunScope, runUnderLease } from '../../sync/run/run.ts';
import type { Warehouse } from '../../warehouse/client.ts';
import { errorFields, type Logger } from '../logging/logger.ts';
import { version } from '../version.ts';

export interface RunnerDeps {
  readonly config: Config;
  readonly db: Database;
  readonly keeper: LeaseKeeper;
  readonly warehouses: ReadonlyMap<string, Warehouse>;
  readonly worker: string;
  readonly log: Logger;
  /** Warnings of each job's last run: what is said again with every poll is a warning once. */
  readonly said: Map<string, string>;
  /** Told of every run, however it ended. */
  readonly onRun?: (client: string, job: string, report: RunReport, durationMs: number) => void;
}

/** What to run for one client, under which lease. */
export interface Work {
  /** Name of the lease and of the run in the ledger: a job, or a command's own. */
  readonly name: string;
  /** The stream that it polls; absent: it polls none. */
  readonly stream?: string;
  readonly run: (context: PullContext) => Promise<void>;
  /** When the run after this one is due; absent: what was planned stays. */
  readonly nextDue?: (now: Date) => Date | null;
  /** By what it comes round; absent: it does not. */
  readonly schedule?: Schedule;
  /** Whether a failed run is made again before it is due. */
  readonly retries?: boolean;
  /** Whether it asks nothing of the service. */
  readonly isLocal?: boolean;
}

/** A client as it is set up here, and whose account that is. */
export function identified(client: WarehouseClient): ClientIdentity {
  return { client: client.key, identity: identityOf(client), baseUrl: client.baseUrl.href };
}

/** Runs one job for one client, and writes one line about it. */
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
    // Switched off here, it may well be scheduled elsewhere.
    ...(schedule.kind === 'off' ? {} : { nextDue: (now: Date) => nextDue(schedule, now, { client: client.key, job }) }),
    retries: retries && trigger === 'schedule',
    isLocal,
  };
  return runWork(deps, work, client, trigger, stop);
}

/** Runs any work for one client under its lease, and writes one line about it. */
export async function runWork(
  deps: RunnerDeps,
  work: Work,
  client: WarehouseClient,
  trigger: Trigger,
  stop: AbortSignal,
): Promise<RunReport> {
  const { db, keeper, log } = deps;
  const startedAtMs = performance.now();
  const request = requestOf(deps, work, client, trigger);
  const own = { client: client.key, job: work.name };
  const report = await runUnderLease(db, keeper, request, stop, async (scope) => {
    if (scope.afterAbandoned) log.warn({ ...own, event: 'run_abandoned' });
    if (scope.missed > 0) log.warn({ ...own, event: 'turns_missed', missed: scope.missed });
    const context = contextOf(deps, work, client, scope);
    // Before many requests run into the same timeout, one asks whether anybody is there and lets us in.
    if (scope.run.probing) await context.warehouse.ready(scope.signal);
    await work.run(context);
  });
  const durationMs = Math.round(performance.now() - startedAtMs);
  logReport(log, own, report, durationMs, isNews(deps.said, request, report));
  deps.onRun?.(client.key, work.name, report, durationMs);
  return report;
}

function requestOf(deps: RunnerDeps, work: Work, client: WarehouseClient, trigger: Trigger): RunRequest {
  const { schedule } = work;
  return {
    ...identified(client),
    job: work.name,
    stream: work.stream ?? null,
    worker: deps.worker,
    trigger,
    version,
    ...(work.nextDue === undefined ? {} : { nextDue: work.nextDue }),
    ...(schedule === undefined ? {} : { missed: (due: Date, now: Date) => missedTurns(schedule, due, now) }),
    retries: work.retries ?? false,
    isLocal: work.isLocal ?? false,
  };
}

function contextOf(
  { config, db, warehouses }: RunnerDeps,
  { name, schedule }: Work,
  client: WarehouseClient,
  { run, totals, plan, signal }: RunScope,
): PullContext {
  const warehouse = warehouses.get(client.key);
  if (warehouse === undefined) throw new TypeError(`client ${client.key} has no service`);
  const turn = { client: client.key, job: name };
  return {
    client: client.key,
    identity: identityOf(client),
    zone: client.timeZone,
    db,
    warehouse,
    run,
    dueNotBefore: (earliest, gapMs) => (schedule === undefined ? null : dueNotBefore(schedule, earliest, gapMs, turn)),
    signal,
    timeoutMs: config.HTTP_TIMEOUT_MS,
    lookbackDays: config.LOOKBACK_DAYS,
    quarantineMaxShare: config.QUARANTINE_MAX_SHARE,
    retentionDays: config.RETENTION_DAYS,
    compare: 'raw',
    state: { totals, plan, service: newServiceClock(), share: newShare() },
  };
}

/** Whether a run warns of something that the one before did not. */
function isNews(
  said: Map<string, string>,
  { client, job }: { client: string; job: string },
  report: RunReport,
): boolean {
  if (report.status === 'skipped') return false;
  const [key, warnings] = [JSON.stringify([client, job]), JSON.stringify(report.totals.warnings)];
  const before = said.get(key) ?? '[]';
  said.set(key, warnings);
  return warnings !== before && warnings !== '[]';
}

function logReport(
  log: Logger,
  own: { readonly client: string; readonly job: string },
  report: RunReport,
  durationMs: number,
  isNew: boolean,
): void {
  if (report.status === 'skipped') {
    const level = report.reason === 'not_due' ? 'debug' : 'info';
    log[level]({ ...own, event: 'run_skipped', reason: report.reason, dueAt: report.dueAt });
    return;
  }
  const { warnings, ...counts } = report.totals;
  const fields = {
    ...own,
    event: `run_${report.status}`,
    run: report.token,
    durationMs,
    ...counts,
    ...(warnings.length > 0 ? { warnings } : {}),
  };
  const failed = report.status === 'failed' || report.status === 'lost';
  const problem = report.error === undefined || report.status === 'stopped' ? {} : errorFields(report.error);
  if (failed) log.error({ ...fields, ...problem });
  else if (isNew || counts.quarantined > 0) log.warn(fields);
  else log.info(fields);
}
