import { Gauge, Registry } from '@prometheus-io/client';
import type { Config } from '../../../config/env.ts';
import type { Logger } from '../../core/logger.ts';
import { type Overview, withReadTimeout } from '../health/overview.ts';
import type { WorkMetrics } from './work-metrics.ts';

/** The gauges of the current state, each with its labels. */
const gauges = {
  stream_lag_seconds: ['client stream', 'Time since a poll last read everything'],
  stream_newest_source_timestamp_seconds: [
    'client stream',
    'Newest date of any received resource, by the service',
  ],
  quarantine_rows: ['client stream', 'Resources in quarantine'],
  reconcile_rows: ['client stream finding', 'Rows that the last reconciliation found'],
  lookback_days: ['', 'LOOKBACK_DAYS of this worker'],
  job_due_timestamp_seconds: ['client job', 'When the job is due; absent if it has no schedule'],
  job_consecutive_failures: ['client job', 'Failed runs since the last one that was done'],
  problems: [
    'client code severity',
    'Problems as on the overview, without those that follow; alerts use only this list',
  ],
  outbox_rows: ['client status', 'Open rows, by status'],
  outbox_oldest_seconds: [
    'client',
    'Age of the oldest open row that is neither dead nor undecided',
  ],
  gate_opens_in_seconds: ['client gate', 'Time until the next call is allowed; 0: now'],
  queue_jobs: ['queue state', 'Jobs in the queue'],
  database_up: ['', '1 if the state could be read'],
  worker_sweep_age_seconds: [
    '',
    'Time since the last complete sweep, or since the start of the worker',
  ],
} as const satisfies Record<string, readonly [labels: string, help: string]>;

/** Adds to a gauge. A null is not reported. */
type Add = (name: keyof typeof gauges, labels: object, value: number | null) => void;

/** Label of all clients that no worker has ever had. The ERP may write any client into a row. */
const unknownClient = 'unknown';

const toSeconds = (date: Date | null) => (date === null ? null : date.getTime() / 1_000);

/** Adds what the database says. */
function addState({ snapshot, problems, isScheduled }: Overview, add: Add): void {
  const now = snapshot.now.getTime();

  for (const row of snapshot.streams) {
    const labels = { client: row.client, stream: row.stream };
    const lagMs = row.lastSuccessAt === null ? null : now - row.lastSuccessAt.getTime();
    add('stream_lag_seconds', labels, lagMs && lagMs / 1_000);
    add('stream_newest_source_timestamp_seconds', labels, toSeconds(row.newestSourceAt));
    add('quarantine_rows', labels, row.quarantined);
    for (const finding of ['missing', 'stale', 'extra'] as const)
      add('reconcile_rows', { ...labels, finding }, row[finding]);
  }

  // Only scheduled jobs: the state of any other job never changes, so an alert about it would
  // never end.
  for (const row of snapshot.jobs.filter(({ client, job }) => isScheduled(client, job))) {
    const labels = { client: row.client, job: row.job };
    add('job_due_timestamp_seconds', labels, toSeconds(row.dueAt));
    add('job_consecutive_failures', labels, row.consecutiveFailures);
  }

  for (const row of snapshot.outbox) {
    const client = row.client ?? unknownClient;
    for (const status of ['pending', 'sending', 'unknown', 'dead'] as const)
      add('outbox_rows', { client, status }, row[status]);
    add('outbox_oldest_seconds', { client }, Math.max(0, row.oldestMovingSeconds ?? 0));
  }

  for (const { client, gate, nextAt } of snapshot.gates)
    add('gate_opens_in_seconds', { client, gate }, Math.max(0, nextAt.getTime() - now) / 1_000);

  for (const { client, code, severity } of problems)
    add('problems', { client: client ?? '', code, severity }, 1);
}

/** The parts that the metrics are read from. */
export interface MetricSources {
  readonly config: Config;
  readonly log: Logger;
  readonly work: WorkMetrics;
  readonly readOverview: () => Promise<Overview>;
  /** Returns the milliseconds since the last complete sweep; undefined before the first. */
  readonly sinceLastSweepMs: () => number | undefined;
  /** Returns the queues by name; none until the worker has started. */
  readonly queues: () => Iterable<
    readonly [
      name: string,
      queue: { getJobCounts: () => Promise<Readonly<Record<string, number>>> },
    ]
  >;
}

/**
 * All metrics of a worker: the work of its process, and the current state. Without the database,
 * only the work is known.
 */
export class Metrics {
  readonly #sources: MetricSources;
  readonly #gauges = new Map<string, Gauge<string>>();
  readonly #registry: Registry;
  readonly #startedAtMs = performance.now();

  constructor(sources: MetricSources) {
    const registry = new Registry();
    for (const [name, [labels, help]] of Object.entries(gauges)) {
      const labelNames = labels.split(' ').filter(Boolean);
      const options = { name: `fulfilment_${name}`, help, labelNames, registers: [registry] };
      this.#gauges.set(name, new Gauge(options));
    }

    this.#sources = sources;
    this.#registry = Registry.merge([sources.work.registry, registry]);
  }

  /** Reads the current state, and returns what `format` makes of the registry of all metrics. */
  async read<T>(format: (registry: Registry) => Promise<T>): Promise<T> {
    const { readOverview, config, sinceLastSweepMs } = this.#sources;
    const [current, queues] = await Promise.all([
      withReadTimeout(readOverview()).catch(() => null),
      this.#countJobs(),
    ]);

    // Values are set and taken without a wait between, so another reader cannot interfere. Without
    // the database, old values would mislead.
    for (const gauge of this.#gauges.values()) gauge.reset();
    const add: Add = (name, labels, value) => {
      if (value !== null) this.#gauges.get(name)?.inc({ ...labels }, value);
    };

    const sweepAgeMs = sinceLastSweepMs() ?? performance.now() - this.#startedAtMs;
    add('worker_sweep_age_seconds', {}, sweepAgeMs / 1_000);
    for (const [queue, counts] of queues)
      for (const [state, count] of Object.entries(counts))
        add('queue_jobs', { queue, state }, count);

    add('database_up', {}, current === null ? 0 : 1);
    if (current !== null) {
      add('lookback_days', {}, config.LOOKBACK_DAYS);
      addState(current, add);
    }

    return format(this.#registry);
  }

  /** Counts the jobs of each queue by state. Leaves out a queue that cannot be reached. */
  async #countJobs() {
    const { queues, log } = this.#sources;
    const counted = await Promise.all(
      [...queues()].map(async ([name, queue]) => {
        try {
          return [[name, await withReadTimeout(queue.getJobCounts())] as const];
        } catch {
          // The event `queue_error` tells that the queue is away.
          log.debug({ event: 'queue_not_counted', queue: name });
          return [];
        }
      }),
    );

    return counted.flat();
  }
}
