/**
 * Metrics of the work of this process, for Prometheus. Labels hold only names from the
 * configuration and the code.
 */

import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from '@prometheus-io/client';
import type { Settlement } from '../../push/sql/settle-rows.ts';
import type { RunReport } from '../../schedule/run.ts';
import type { Exchange } from '../../service/transport/http.ts';

/**
 * Upper bounds in seconds. A page of a list takes tens of milliseconds; the longest timeout is ten
 * minutes.
 */
const requestBuckets = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];
const runBuckets = [0.1, 0.5, 1, 5, 15, 60, 300, 1_800];
/** Interval in which the lag of the event loop is sampled; `nodejs_eventloop_lag_*` contains it. */
const eventLoopSampleMs = 100;
const rowOutcomes = ['created', 'updated', 'removed', 'unchanged', 'stale', 'quarantined'] as const;
/** HTTP statuses that are labels. Of any other status, the label is its class. */
const exactStatuses = new Set([
  '401',
  '403',
  '404',
  '405',
  '408',
  '409',
  '422',
  '425',
  '429',
  '503',
]);

/**
 * Counters and histograms since the start of this process. Every label has a bounded set of values.
 */
export class WorkMetrics {
  readonly registry = new Registry();
  readonly #kinds: ReadonlySet<string>;
  readonly #requests = this.#histogram(
    'fulfilment_request_duration_seconds',
    'Requests to the service; status: HTTP status or its class, ' +
      'or the error code if there was no answer',
    ['operation', 'status'],
    requestBuckets,
  );
  readonly #requestCount = this.#counter(
    'fulfilment_requests_total',
    'Requests to the service of each client',
    ['client', 'status'],
  );
  readonly #runs = this.#counter('fulfilment_runs_total', 'Runs of this worker', [
    'client',
    'job',
    'outcome',
  ]);
  readonly #runDuration = this.#histogram(
    'fulfilment_run_duration_seconds',
    'Runs that began',
    ['job'],
    runBuckets,
  );
  readonly #pages = this.#counter('fulfilment_pages_total', 'Pages read from the service', [
    'client',
    'job',
  ]);
  readonly #fetched = this.#counter('fulfilment_fetched_total', 'Resources read from the service', [
    'client',
    'job',
  ]);
  readonly #rows = this.#counter('fulfilment_rows_total', 'Received resources, by outcome', [
    'client',
    'job',
    'outcome',
  ]);
  readonly #attempts = this.#counter(
    'fulfilment_push_attempts_total',
    'Attempts (step sent) and look-ups of outbox rows, by the new status of the row',
    ['client', 'kind', 'step', 'outcome'],
  );
  readonly #attemptDuration = this.#histogram(
    'fulfilment_push_attempt_duration_seconds',
    'Attempts and look-ups of outbox rows',
    ['kind', 'step'],
    requestBuckets,
  );

  /**
   * @param kinds known kinds of outbox rows. The ERP may write anything into a row; other kinds
   * count as `unknown`
   */
  constructor(version: string, kinds: readonly string[]) {
    this.#kinds = new Set(kinds);
    collectDefaultMetrics({
      register: this.registry,
      eventLoopMonitoringPrecision: eventLoopSampleMs,
    });

    new Gauge({
      name: 'fulfilment_worker_info',
      help: '1, with the version of this worker',
      labelNames: ['version'],
      registers: [this.registry],
    }).set({ version }, 1);
  }

  onExchange(client: string, { operation, status, durationMs }: Exchange): void {
    const label = toStatusLabel(status);
    this.#requests.observe({ operation, status: label }, durationMs / 1_000);
    this.#requestCount.inc({ client, status: label });
  }

  onRun(client: string, job: string, report: RunReport, durationMs: number): void {
    const outcome = report.status === 'skipped' ? `skipped_${report.reason}` : report.status;
    this.#runs.inc({ client, job, outcome });
    if (report.status === 'skipped') return;

    const { totals } = report;
    this.#runDuration.observe({ job }, durationMs / 1_000);
    this.#pages.inc({ client, job }, totals.pages);
    this.#fetched.inc({ client, job }, totals.fetched);
    for (const one of rowOutcomes) this.#rows.inc({ client, job, outcome: one }, totals[one]);
  }

  onSettled({ client, step, status, durationMs }: Settlement, rowKind: string): void {
    const kind = this.#kinds.has(rowKind) ? rowKind : 'unknown';
    const label = step.replaceAll(' ', '_');
    this.#attempts.inc({ client, kind, step: label, outcome: status });
    this.#attemptDuration.observe({ kind, step: label }, (durationMs ?? 0) / 1_000);
  }

  #counter<T extends string>(name: string, help: string, labelNames: T[]): Counter<T> {
    return new Counter({ name, help, labelNames, registers: [this.registry] });
  }

  #histogram<T extends string>(
    name: string,
    help: string,
    labelNames: T[],
    buckets: number[],
  ): Histogram<T> {
    return new Histogram({ name, help, labelNames, buckets, registers: [this.registry] });
  }
}

function toStatusLabel(status: string): string {
  if (!/^\d{3}$/.test(status)) return status;
  return exactStatuses.has(status) ? status : `${status.charAt(0)}xx`;
}
