import { context, ROOT_CONTEXT, SpanStatusCode, trace } from '@opentelemetry/api';
import { toIdentity, type WarehouseClient } from '../../config/files.ts';
import type { JobName } from '../../config/jobs.ts';
import { errorFields, type Logger } from '../core/logger.ts';
import type { Trigger } from './decide-start.ts';
import type { Jobs } from './job.ts';
import type { JobKey } from './plan-next.ts';
import {
  finishRun,
  makeRun,
  type RunClient,
  type RunDeps,
  type RunReport,
  type Work,
} from './run.ts';
import type { Run } from './sql/ledger.ts';

/** Makes the spans of runs. It does nothing unless the operator starts an SDK (deploy/otel). */
const tracer = trace.getTracer('fulfilment-sync');

/** The parts that a run of this process needs. */
export interface RunnerDeps extends RunDeps {
  readonly jobs: Jobs;
  readonly log: Logger;
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

/** The client of a run, and what asks for the run. */
interface RunRequest {
  readonly client: WarehouseClient;
  readonly trigger: Trigger;
}

/** Runs one job for one client, and logs one line about it. */
export function runJob(
  deps: RunnerDeps,
  job: JobName,
  request: RunRequest,
  stop: AbortSignal,
): Promise<RunReport> {
  const work = { ...deps.jobs[job], name: job, schedule: deps.config.schedules[job] };
  return runWork(deps, work, request, stop);
}

/** Runs any work for one client under its lease, and logs one line about it. */
export function runWork(
  deps: RunnerDeps,
  work: Work,
  { client, trigger }: RunRequest,
  stop: AbortSignal,
): Promise<RunReport> {
  const request = { work, client: toClientIdentity(client), trigger };
  return follow(deps, { client: client.key, job: work.name }, () =>
    makeRun(deps, request, stop, (run) => logStart(deps, run)),
  );
}

/** Works for a run that has begun, and logs one line about it. */
export function finishWork(
  deps: RunnerDeps,
  work: Work,
  started: { readonly client: RunClient; readonly run: Run },
  stop: AbortSignal,
): Promise<RunReport> {
  const { client, name: job } = started.run.lease;
  return follow(deps, { client, job }, () => {
    logStart(deps, started.run);
    return finishRun(deps, work, started, stop);
  });
}

/** Makes a run within a trace of its own. Logs and counts how it ends. */
async function follow(
  deps: RunnerDeps,
  jobKey: JobKey,
  run: () => Promise<RunReport>,
): Promise<RunReport> {
  const attributes = { 'fulfilment.client': jobKey.client, 'fulfilment.job': jobKey.job };
  const span = tracer.startSpan(`run ${jobKey.job}`, { root: true, attributes });
  const startedAtMs = performance.now();

  try {
    return await context.with(trace.setSpan(ROOT_CONTEXT, span), async () => {
      const report = await run();
      const durationMs = Math.round(performance.now() - startedAtMs);
      logReport(deps, jobKey, report, durationMs);
      deps.onRun?.(jobKey.client, jobKey.job, report, durationMs);
      span.setAttribute('fulfilment.status', report.status);
      if ('error' in report) span.setStatus({ code: SpanStatusCode.ERROR });
      return report;
    });
  } finally {
    span.end();
  }
}

function logStart({ log }: RunnerDeps, { lease, afterAbandoned, missed }: Run): void {
  const jobKey = { client: lease.client, job: lease.name };
  if (afterAbandoned) log.warn({ ...jobKey, event: 'run_abandoned' });
  if (missed > 0) log.warn({ ...jobKey, event: 'turns_missed', missed });
}

/**
 * Logs how a run ended: at error if it failed or was abandoned, at warn if it has new warnings, at
 * debug if it changed nothing.
 */
function logReport(
  { log, reportedWarnings }: RunnerDeps,
  jobKey: JobKey,
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

  if (status === 'failed' || status === 'abandoned')
    log.error({ ...fields, ...errorFields(error) });
  else if (hasNewWarnings || counts.quarantined > 0) log.warn(fields);
  else log[counts.created + counts.updated + counts.removed > 0 ? 'info' : 'debug'](fields);
}
