import type { Config } from '../../config/env.ts';
import type { WarehouseClient } from '../../config/files.ts';
import type { JobName } from '../../config/schedules.ts';
import { jobs } from '../../jobs/registry.ts';
import type { Database } from '../erp/connect.ts';
import type { LeaseKeeper } from '../erp/leases.ts';
import { type RunRequest, rowsWritten, type Trigger } from '../erp/runs.ts';
import { nextDue } from '../queue/next-due.ts';
import { newServiceClock, newShare, type PullContext } from '../sync/pull.ts';
import { type RunReport, runUnderLease } from '../sync/run.ts';
import type { Warehouse } from '../warehouse/client.ts';
import { errorFields, type Logger } from './log.ts';
import { version } from './version.ts';

export interface RunnerDeps {
  readonly config: Config;
  readonly db: Database;
  readonly keeper: LeaseKeeper;
  readonly warehouses: ReadonlyMap<string, Warehouse>;
  readonly worker: string;
  readonly log: Logger;
  /** Warnings of each job's last run: what is said again with every poll is a warning once. */
  readonly said: Map<string, string>;
}

/** What to run for one client, under which lease. */
export interface Work {
  /** Name of the lease and of the run in the ledger: a job, or a command's own. */
  readonly name: string;
  readonly run: (context: PullContext) => Promise<void>;
  /** When the run after this one is due; absent: what was planned stays. */
  readonly nextDue?: (now: Date) => Date | null;
  /** Whether a failed run is made again before it is due. */
  readonly retries?: boolean;
}

/** Runs one job for one client, and writes one line about it. */
export async function runJob(
  deps: RunnerDeps,
  job: JobName,
  client: WarehouseClient,
  trigger: Trigger,
  stop: AbortSignal,
): Promise<RunReport> {
  const { run, queue } = jobs[job];
  const work = {
    name: job,
    run,
    nextDue: (now: Date) => nextDue(deps.config.schedules[job], now),
    // What comes seldom cannot wait for its next turn.
    retries: queue === 'bulk' && trigger === 'schedule',
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
  const { db, keeper, worker, log } = deps;
  const warehouse = deps.warehouses.get(client.key);
  if (warehouse === undefined) throw new TypeError(`client ${client.key} has no service`);
  const startedAtMs = performance.now();
  const request: RunRequest = {
    client: client.key,
    job: work.name,
    worker,
    trigger,
    version,
    ...(work.nextDue === undefined ? {} : { nextDue: work.nextDue }),
    retries: work.retries ?? false,
  };
  const runLog = log.child({ client: client.key, job: work.name });
  const report = await runUnderLease(db, keeper, request, stop, ({ run, totals, afterAbandoned, signal }) => {
    if (afterAbandoned) runLog.warn({ event: 'run_abandoned' });
    return work.run({
      client: client.key,
      zone: client.timeZone,
      db,
      warehouse,
      run,
      totals,
      signal,
      lookbackDays: deps.config.LOOKBACK_DAYS,
      quarantineMaxShare: deps.config.QUARANTINE_MAX_SHARE,
      retentionDays: deps.config.RETENTION_DAYS,
      service: newServiceClock(),
      compare: 'raw',
      share: newShare(),
    });
  });
  logReport(runLog, report, Math.round(performance.now() - startedAtMs), isNews(deps.said, request, report));
  return report;
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

function logReport(log: Logger, report: RunReport, durationMs: number, isNew: boolean): void {
  if (report.status === 'skipped') {
    const level = report.reason === 'overlap' ? 'info' : 'debug';
    log[level]({ event: 'run_skipped', reason: report.reason, dueAt: report.dueAt });
    return;
  }
  const { warnings, ...counts } = report.totals;
  const fields = { event: `run_${report.status}`, durationMs, ...counts, ...(warnings.length > 0 ? { warnings } : {}) };
  const failed = report.status === 'failed' || report.status === 'lost';
  const problem = report.error === undefined || report.status === 'stopped' ? {} : errorFields(report.error);
  if (failed) log.error({ ...fields, ...problem });
  else if (isNew || counts.quarantined > 0) log.warn(fields);
  else log[rowsWritten(report.totals) > 0 ? 'info' : 'debug'](fields);
}
