import { Gauge, Registry } from '@prometheus-io/client';
import type { Config } from '../../../config/env.ts';
import type { Logger } from '../../core/logger.ts';
import { withReadTimeout } from '../health/overview.ts';
import type { Problem } from '../health/problem.ts';
import { findProblems } from '../health/problems.ts';
import type { CurrentState, Snapshot } from '../health/state.ts';
import type { JobStatus } from '../sql/job-status.ts';
import type { StreamStatus } from '../sql/stream-status.ts';
import type { WorkMetrics } from './work-metrics.ts';

const toSeconds = (date: Date | null) => (date === null ? null : date.getTime() / 1_000);

/** Gauges for each client and stream. A null is not reported. */
const streamGauges: readonly (readonly [
  name: string,
  help: string,
  value: (row: StreamStatus) => number | null,
])[] = [
  [
    'stream_last_attempt_timestamp_seconds',
    'When a poll last began',
    (row) => toSeconds(row.lastAttemptAt),
  ],
  [
    'stream_last_success_timestamp_seconds',
    'When a poll last read everything',
    (row) => toSeconds(row.lastSuccessAt),
  ],
  [
    'stream_last_change_timestamp_seconds',
    'When a poll last changed a row',
    (row) => toSeconds(row.lastChangeAt),
  ],
  [
    'stream_newest_source_timestamp_seconds',
    'Newest date of any received resource, by the service',
    (row) => toSeconds(row.newestSourceAt),
  ],
  ['quarantine_rows', 'Resources in quarantine', (row) => row.quarantined],
  [
    'reconcile_timestamp_seconds',
    'When a reconciliation was last done',
    (row) => toSeconds(row.reconciledAt),
  ],
];

/** Gauges for each client and job. A null is not reported. */
const jobGauges: readonly (readonly [
  name: string,
  help: string,
  value: (row: JobStatus) => number | null,
])[] = [
  ['job_running', '1 while a run is under way', (row) => Number(row.running)],
  [
    'job_due_timestamp_seconds',
    'When the job is due; absent if it has no schedule',
    (row) => toSeconds(row.dueAt),
  ],
  [
    'job_consecutive_failures',
    'Failed runs since the last one that was done',
    (row) => row.consecutiveFailures,
  ],
  ['job_skips', 'Runs that were skipped or missed so far', (row) => row.skips],
];

/** Gauges that are not one value of a row, each with its labels. */
const otherGauges: readonly (readonly [name: string, labels: string, help: string])[] = [
  ['stream_lag_seconds', 'client stream', 'Time since a poll last read everything'],
  ['reconcile_rows', 'client stream finding', 'Rows that the last reconciliation found'],
  ['lookback_days', '', 'LOOKBACK_DAYS of this worker'],
  ['problems', 'client code severity', 'Problems as on the overview; alerts use only this list'],
  ['outbox_rows', 'client status', 'Open rows, by status'],
  ['outbox_done_last_day', 'client', 'Rows that were done in 24 hours'],
  [
    'outbox_oldest_seconds',
    'client',
    'Age of the oldest open row that is neither dead nor undecided',
  ],
  ['gate_opens_in_seconds', 'client gate', 'Time until the next call is allowed; 0: now'],
  ['parcel_reads_due', 'client', 'Shipments whose packages are due to be looked up'],
  ['feed_waiting', '', 'Changes that are not in the feed yet, at most 100,000'],
  ['feed_oldest_seconds', '', 'Time since the transaction of the oldest of them began'],
  ['queue_jobs', 'queue state', 'Jobs in the queue'],
  ['database_up', '', '1 if the state could be read'],
  [
    'worker_sweep_age_seconds',
    '',
    'Time since the last complete sweep, or since the start of the worker',
  ],
];

/** Label of all clients that no worker has ever had. The ERP may write any client into a row. */
const unknownClient = 'unknown';

/** The gauges that are set from the current state. */
class StateMetrics {
  readonly #gauges = new Map<string, Gauge<string>>();
  readonly registry = new Registry();

  constructor() {
    for (const [name, help] of streamGauges) this.#gauge(name, help, ['client', 'stream']);
    for (const [name, help] of jobGauges) this.#gauge(name, help, ['client', 'job']);
    for (const [name, labels, help] of otherGauges)
      this.#gauge(name, help, labels.split(' ').filter(Boolean));
  }

  /** Removes all values, because the database could not be read and old values would mislead. */
  setUnknown(): void {
    for (const gauge of this.#gauges.values()) gauge.reset();
    this.#set('database_up', {}, 0);
  }

  set({ snapshot, isScheduled }: CurrentState, lookbackDays: number): void {
    this.setUnknown();
    this.#set('database_up', {}, 1);
    this.#set('lookback_days', {}, lookbackDays);

    const now = snapshot.now.getTime();
    for (const row of snapshot.streams) this.#setStream(row, now);
    // Only scheduled jobs: the state of any other job never changes, so an alert about it would
    // never end.
    for (const row of snapshot.jobs.filter(({ client, job }) => isScheduled(client, job))) {
      const labels = { client: row.client, job: row.job };
      for (const [name, , value] of jobGauges) this.#set(name, labels, value(row));
    }

    this.#setOutbox(snapshot);
    const { waiting, oldestAt } = snapshot.feed;
    this.#set('feed_waiting', {}, waiting);
    this.#set(
      'feed_oldest_seconds',
      {},
      oldestAt === null ? 0 : (now - oldestAt.getTime()) / 1_000,
    );
    this.#setClients(snapshot, now);
  }

  /** Counts the problems. What follows from one is not counted. */
  setProblems(problems: readonly Problem[]): void {
    for (const { client, code, severity } of problems)
      this.#gauges.get('problems')?.inc({ client: client ?? '', code, severity });
  }

  setSweepAge(seconds: number): void {
    this.#set('worker_sweep_age_seconds', {}, seconds);
  }

  setQueue(queue: string, counts: Readonly<Record<string, number>>): void {
    for (const [state, count] of Object.entries(counts))
      this.#set('queue_jobs', { queue, state }, count);
  }

  #setStream(row: StreamStatus, now: number): void {
    const labels = { client: row.client, stream: row.stream };
    for (const [name, , value] of streamGauges) this.#set(name, labels, value(row));
    if (row.lastSuccessAt !== null)
      this.#set('stream_lag_seconds', labels, (now - row.lastSuccessAt.getTime()) / 1_000);
    for (const finding of ['missing', 'stale', 'extra'] as const)
      this.#set('reconcile_rows', { ...labels, finding }, row[finding]);
  }

  #setOutbox({ outbox }: Snapshot): void {
    for (const row of outbox) {
      const client = row.client ?? unknownClient;
      for (const status of ['pending', 'sending', 'unknown', 'dead'] as const)
        this.#set('outbox_rows', { client, status }, row[status]);
      this.#set('outbox_done_last_day', { client }, row.doneLastDay);
      this.#set('outbox_oldest_seconds', { client }, Math.max(0, row.oldestMovingSeconds ?? 0));
    }
  }

  #setClients({ clients, gates, parcelBacklog }: Snapshot, now: number): void {
    for (const { client } of clients) this.#set('parcel_reads_due', { client }, 0);
    for (const { client, shipments } of parcelBacklog)
      this.#set('parcel_reads_due', { client }, shipments);

    for (const { client, gate, nextAt } of gates) {
      const opensInMs = Math.max(0, nextAt.getTime() - now);
      this.#set('gate_opens_in_seconds', { client, gate }, opensInMs / 1_000);
    }
  }

  #gauge(name: string, help: string, labelNames: string[]): void {
    const registers = [this.registry];
    this.#gauges.set(name, new Gauge({ name: `fulfilment_${name}`, help, labelNames, registers }));
  }

  #set(name: string, labels: Record<string, string>, value: number | null): void {
    if (value !== null) this.#gauges.get(name)?.set(labels, value);
  }
}

/** The parts that the metrics are read from. */
export interface MetricSources {
  readonly config: Config;
  readonly log: Logger;
  readonly work: WorkMetrics;
  readonly readState: () => Promise<CurrentState>;
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
  readonly #state = new StateMetrics();
  readonly #registry: Registry;
  readonly #startedAtMs = performance.now();

  constructor(sources: MetricSources) {
    this.#sources = sources;
    this.#registry = Registry.merge([sources.work.registry, this.#state.registry]);
  }

  /** Reads the current state, and returns what `format` makes of the registry of all metrics. */
  async read<T>(format: (registry: Registry) => Promise<T>): Promise<T> {
    const { readState, config, sinceLastSweepMs } = this.#sources;
    const [current, queues] = await Promise.all([
      withReadTimeout(readState()).catch(() => null),
      this.#countJobs(),
    ]);

    // Values are set and taken without a wait between, so another reader cannot interfere.
    if (current === null) this.#state.setUnknown();
    else {
      this.#state.set(current, config.LOOKBACK_DAYS);
      this.#state.setProblems(findProblems(current, config));
    }

    this.#state.setSweepAge((sinceLastSweepMs() ?? performance.now() - this.#startedAtMs) / 1_000);
    for (const [name, counts] of queues) this.#state.setQueue(name, counts);

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
