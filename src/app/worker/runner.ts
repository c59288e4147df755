import { toIdentity, type WarehouseClient } from '../../../config/files.ts';
import type { JobName } from '../../../config/jobs.ts';
import { jobs } from '../../../jobs/registry.ts';
import type { Trigger } from '../../erp/runs/start-run.ts';
import { makeRun, type RunClient, type RunDeps, type RunReport, type Work } from '../../sync/run/run.ts';
import { errorFields, type Logger } from '../logging/logger.ts';

/** The parts that a run of this process needs. */
export interface RunnerDeps extends RunDeps {
  readonly log: Logger;
  /** Warnings of the last run of each job, so that a warning that every poll repeats is logged once. */
  readonly reportedWarnings: Map<string, string>;
  /** Called after every run, also a skipped or failed one. */
  readonly onRun?: (client: string, job: string, report: RunReport, durationMs: number) => void;
}

/** Returns the client of the configuration with the identity of its account. */
export function toClientIdentity(client: WarehouseClient): RunClient {
  return { client: client.key, identity: toIdentity(client), baseUrl: client.baseUrl.href, zone: client.timeZone };
}

/** Runs one job for one client, and logs one line about it. */
export function runJob(
  deps: RunnerDeps,
  job: JobName,
  client: WarehouseClient,
  trigger: Trigger,
  stop: AbortSignal,
): Promise<RunReport> {
  return runWork(deps, { ...jobs[job], name: job, schedule: deps.config.schedules[job] }, client, trigger, stop);
}

/** Runs any work for one client under its lease, and logs one line about it. */
export async function runWork(
  deps: RunnerDeps,
  work: Work,
  client: WarehouseClient,
  trigger: Trigger,
  stop: AbortSignal,
): Promise<RunReport> {
  const startedAtMs = performance.now();
  const jobKey = { client: client.key, job: work.name };
  const report = await makeRun(deps, work, toClientIdentity(client), trigger, stop, ({ afterAbandoned, missed }) => {
    if (afterAbandoned) deps.log.warn({ ...jobKey, event: 'run_abandoned' });
    if (missed > 0) deps.log.warn({ ...jobKey, event: 'turns_missed', missed });
  });
  const durationMs = Math.round(performance.now() - startedAtMs);
  logReport(deps, jobKey, report, durationMs);
  deps.onRun?.(client.key, work.name, report, durationMs);
  return report;
}

/** Logs how a run ended: at error if it failed or was abandoned, at warn if it has new warnings. */
function logReport(
  { log, reportedWarnings }: RunnerDeps,
  jobKey: { readonly client: string; readonly job: string },
  report: RunReport,
  durationMs: number,
): void {
  if (report.status === 'skipped') {
    const level = report.reason === 'not_due' ? 'debug' : 'info';
    log[level]({ ...jobKey, event: 'run_skipped', reason: report.reason, dueAt: report.dueAt });
    return;
  }
  const { status, leaseKey, error } = report;
  const { warnings, ...counts } = report.totals;
  const event = { ...jobKey, event: `run_${status}`, leaseKey, durationMs, ...counts };
  const fields = warnings.length > 0 ? { ...event, warnings } : event;
  const [key, words] = [JSON.stringify(jobKey), JSON.stringify(warnings)];
  const hasNewWarnings = warnings.length > 0 && reportedWarnings.get(key) !== words;
  reportedWarnings.set(key, words);
  if (status === 'failed' || status === 'abandoned') log.error({ ...fields, ...errorFields(error) });
  else if (hasNewWarnings || counts.quarantined > 0) log.warn(fields);
  else log.info(fields);
}
