/**
 * Metrics of work and of state, for Prometheus. Labels hold only names from the configuration and the code.
 */

import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import type { Settlement } from '../../erp/outbox/settle.ts';
import type { RunReport } from '../../sync/run/run.ts';
import type { Exchange } from '../../warehouse/transport/http.ts';

/** Seconds; a page of a list takes some tens of milliseconds, the longest timeout is ten minutes. */
const requestBuckets = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];
const runBuckets = [0.1, 0.5, 1, 5, 15, 60, 300, 1_800];
const rowOutcomes = ['created', 'updated', 'removed', 'unchanged', 'stale', 'quarantined'] as const;
/** Statuses that are told apart; of others the class. */
const ownStatuses = new Set(['401', '403', '404', '405', '408', '409', '422', '425', '429', '503']);

/** What this worker did since it started. Every label has a bounded set of values. */
export class WorkMetrics {
  readonly registry = new Registry();
  readonly #kinds: ReadonlySet<string>;
  readonly #requests = this.#histogram(
    'fulfilment_request_duration_seconds',
    'Requests to the service; status is the HTTP status (or its class), or the code of the error where none came',
    ['operation', 'status'],
    requestBuckets,
  );
  readonly #requestCount = this.#counter('fulfilment_requests_total', 'Requests to the service of each client', [
    'client',
    'status',
  ]);
  readonly #runs = this.#counter('fulfilment_runs_total', 'Runs of this worker', ['client', 'job', 'outcome']);
  readonly #runDuration = this.#histogram('fulfilment_run_duration_seconds', 'Runs that began', ['job'], runBuckets);
  readonly #pages = this.#counter('fulfilment_pages_total', 'Pages read from the service', ['client', 'job']);
  readonly #fetched = this.#counter('fulfilment_fetched_total', 'Resources read from the service', ['client', 'job']);
  readonly #rows = this.#counter('fulfilment_rows_total', 'What became of what was read, by outcome', [
    'client',
    'job',
    'outcome',
  ]);
  readonly #attempts = this.#counter(
    'fulfilment_push_attempts_total',
    'Attempts (step sent) and look-ups of outbox rows, by what became of the row',
    ['client', 'kind', 'step', 'outcome'],
  );
  readonly #attemptDuration = this.#histogram(
    'fulfilment_push_attempt_duration_seconds',
    'Attempts and look-ups of outbox rows',
    ['kind', 'step'],
    requestBuckets,
  );

  /**
   * @param kinds of outbox rows that are known here: an ERP may write anything into a row
   * @param sinceLastSweepMs undefined until the first sweep was done
   */
  constructor(version: string, kinds: readonly string[], sinceLastSweepMs: () => number | undefined) {
    this.#kinds = new Set(kinds);
    collectDefaultMetrics({ register: this.registry });
    const registers = [this.registry];
    new Gauge({
      name: 'fulfilment_worker_info',
      help: '1, with the version of this worker',
      labelNames: ['version'],
      registers,
    }).set({ version }, 1);
    new Gauge({
      name: 'fulfilment_worker_sweep_age_seconds',
      help: 'Since the last sweep that did all it had to; since the start, where none was done yet',
      registers,
      collect() {
        this.set((sinceLastSweepMs() ?? performance.now()) / 1_000);
      },
    });
  }

  onExchange(client: string, { operation, status, durationMs }: Exchange): void {
    const named = boundedStatus(status);
    this.#requests.observe({ operation, status: named }, durationMs / 1_000);
    this.#requestCount.inc({ client, status: named });
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

  onSettled({ client, step, status, durationMs }: Settlement, asked: string): void {
    const kind = this.#kinds.has(asked) ? asked : 'unknown';
    const named = step.replaceAll(' ', '_');
    this.#attempts.inc({ client, kind, step: named, outcome: status });
    this.#attemptDuration.observe({ kind, step: named }, durationMs / 1_000);
  }

  #counter<T extends string>(name: string, help: string, labelNames: T[]): Counter<T> {
    return new Counter({ name, help, labelNames, registers: [this.registry] });
  }

  #histogram<T extends string>(name: string, help: string, labelNames: T[], buckets: number[]): Histogram<T> {
    return new Histogram({ name, help, labelNames, buckets, registers: [this.registry] });
  }
}

function boundedStatus(status: string): string {
  if (!/^\d{3}$/.test(status)) return status;
  return ownStatuses.has(status) ? status : `${status.charAt(0)}xx`;
}
