/**
 * Metrics of the present state, most of it in the database. Every worker reports the same: take the maximum of all workers, not the sum.
 */

import { Gauge, Registry } from 'prom-client';
import { isHeld } from '../../erp/outbox/holds.ts';
import type { JobStatus } from '../../erp/reports/job-status.ts';
import type { StreamStatus } from '../../erp/reports/stream-status.ts';
import type { CurrentState } from '../health/overview.ts';
import type { Snapshot } from '../health/snapshot.ts';

const toSeconds = (date: Date | null) => (date === null ? null : date.getTime() / 1_000);

/** Gauges for each client and stream. A null is not reported. */
const streamGauges: readonly (readonly [name: string, help: string, value: (row: StreamStatus) => number | null])[] = [
  ['fulfilment_stream_last_attempt_timestamp_seconds', 'When a poll last began', (row) => toSeconds(row.lastAttemptAt)],
  [
    'fulfilment_stream_last_success_timestamp_seconds',
    'When a poll last read everything',
    (row) => toSeconds(row.lastSuccessAt),
  ],
  [
    'fulfilment_stream_last_change_timestamp_seconds',
    'When a poll last changed a row',
    (row) => toSeconds(row.lastChangeAt),
  ],
  [
    'fulfilment_stream_newest_source_timestamp_seconds',
    'Newest date of any received resource, by the service',
    (row) => toSeconds(row.newestSourceAt),
  ],
  ['fulfilment_stream_first_load', '1 during the first load', (row) => Number(row.firstLoad)],
  ['fulfilment_stream_rows_last_day', 'Rows that polls changed in 24 hours', (row) => row.changedLastDay],
  ['fulfilment_stream_usual_rows_per_day', 'Rows that polls usually change in a day', (row) => row.usualPerDay],
  [
    'fulfilment_stream_gaps',
    'Gaps: spans that were not read and that the service no longer lists',
    (row) => row.gaps.length,
  ],
  ['fulfilment_quarantine_rows', 'Resources in quarantine', (row) => row.quarantined],
  [
    'fulfilment_reconcile_timestamp_seconds',
    'When a reconciliation was last done',
    (row) => toSeconds(row.reconciledAt),
  ],
  [
    'fulfilment_reconcile_lateness_p99_seconds',
    'Lateness of the changes that reconciliations healed, 99th percentile; streams that are read by day',
    (row) => (row.readByDay ? row.lateSecondsP99 : null),
  ],
];

/** Gauges for each client and job. A null is not reported. */
const jobGauges: readonly (readonly [name: string, help: string, value: (row: JobStatus) => number | null])[] = [
  ['fulfilment_job_running', '1 while a run is under way', (row) => Number(row.running)],
  [
    'fulfilment_job_due_timestamp_seconds',
    'When the job is due; absent if it has no schedule',
    (row) => toSeconds(row.dueAt),
  ],
  [
    'fulfilment_job_consecutive_failures',
    'Failed runs since the last one that was done',
    (row) => row.consecutiveFailures,
  ],
  ['fulfilment_job_skips', 'Runs that were skipped or missed so far', (row) => row.skips],
];

/** The gauges that are set from the current state. */
export class StateMetrics {
  readonly #gauges = new Map<string, Gauge>();
  readonly registry = new Registry();

  constructor() {
    for (const [name, help] of streamGauges) this.#gauge(name, help, ['client', 'stream']);
    for (const [name, help] of jobGauges) this.#gauge(name, help, ['client', 'job']);
    this.#gauge('fulfilment_stream_lag_seconds', 'Time since a poll last read everything', ['client', 'stream']);
    this.#gauge('fulfilment_reconcile_rows', 'Rows that the last reconciliation found', [
      'client',
      'stream',
      'finding',
    ]);
    this.#gauge('fulfilment_job_late_seconds', 'How long the job has been late; 0: not late', ['client', 'job']);
    this.#gauge('fulfilment_paused_seconds', 'How long a job (or push-outbox) has been paused', ['client', 'job']);
    this.#gauge('fulfilment_lookback_days', 'LOOKBACK_DAYS of this worker', []);
    this.#gauge('fulfilment_outbox_rows', 'Open rows, by status', ['client', 'status']);
    this.#gauge('fulfilment_outbox_done_last_day', 'Rows that were done in 24 hours', ['client']);
    this.#gauge('fulfilment_outbox_undecided_rows', 'Stuck rows: unknown rows that only a person can decide', [
      'client',
    ]);
    this.#gauge('fulfilment_outbox_oldest_seconds', 'Age of the oldest open row that is neither dead nor undecided', [
      'client',
    ]);
    this.#gauge('fulfilment_push_held', '1 while the rows of a client (kind empty) or of a kind are held, by code', [
      'client',
      'kind',
      'code',
    ]);
    this.#gauge(
      'fulfilment_database_changed',
      '1 while no row is sent: the database was restored, copied or moved, or a failover lost commits',
      [],
    );
    this.#gauge('fulfilment_push_rate_rows_per_second', 'Send rate after a 429, in rows a second', ['client']);
    this.#gauge('fulfilment_client_served_timestamp_seconds', 'When a worker last pushed for the client', ['client']);
    this.#gauge('fulfilment_client_held', '1 while scheduled runs of a client are held, by code', ['client', 'code']);
    this.#gauge('fulfilment_client_parked', '1 while the client is parked: its account is not the accepted one', [
      'client',
    ]);
    this.#gauge('fulfilment_gate_opens_in_seconds', 'Time until the next call is allowed; 0: now', ['client', 'gate']);
    this.#gauge('fulfilment_gate_passages', 'Calls made so far', ['client', 'gate']);
    this.#gauge('fulfilment_parcel_reads_due', 'Shipments whose packages are due to be looked up', ['client']);
    this.#gauge('fulfilment_gate_spent', 'Calls whose worker was lost', ['client', 'gate']);
    this.#gauge('fulfilment_queue_jobs', 'Jobs in the queue', ['queue', 'state']);
    this.#gauge('fulfilment_notify_queue_ratio', 'Used part of the NOTIFY queue of Postgres, from 0 to 1', []);
    this.#gauge('fulfilment_database_up', '1 if the state could be read', []);
    this.#gauge(
      'fulfilment_worker_sweep_age_seconds',
      'Time since the last complete sweep, or since the start of the worker',
      [],
    );
  }

  /** Removes all values, because the database could not be read and old values would mislead. */
  setUnknown(): void {
    for (const gauge of this.#gauges.values()) gauge.reset();
    this.#set('fulfilment_database_up', {}, 0);
  }

  /**
   * Sets all values from the state.
   * @param configuredClients clients of this worker's configuration
   */
  set(
    { snapshot, stale, isScheduled }: CurrentState,
    configuredClients: readonly string[],
    lookbackDays: number,
  ): void {
    this.setUnknown();
    this.#set('fulfilment_database_up', {}, 1);
    this.#set('fulfilment_lookback_days', {}, lookbackDays);
    this.#set('fulfilment_notify_queue_ratio', {}, snapshot.notifyQueue);
    const now = snapshot.now.getTime();
    for (const row of snapshot.streams) this.#setStream(row, now);
    // Only scheduled jobs: the state of any other job never changes, so an alert about it would never end.
    for (const row of snapshot.jobs.filter(({ client, job }) => isScheduled(client, job))) {
      const labels = { client: row.client, job: row.job };
      for (const [name, , value] of jobGauges) this.#set(name, labels, value(row));
      this.#set('fulfilment_job_late_seconds', labels, 0);
    }
    for (const { client, job, since } of stale)
      this.#set('fulfilment_job_late_seconds', { client, job }, (now - since.getTime()) / 1_000);
    // The ERP may write any client into a row, so only known clients become labels.
    this.#setOutbox(snapshot, new Set([...configuredClients, ...snapshot.clients.map(({ client }) => client)]));
    this.#setClients(snapshot, now);
    for (const { client, job, since } of snapshot.pauses)
      for (const one of client === null ? configuredClients : [client]) {
        // If a job is paused both for the client and for every client, the longer pause counts.
        const others = snapshot.pauses.filter((pause) => pause.job === job && (pause.client ?? one) === one);
        const first = Math.min(since.getTime(), ...others.map((pause) => pause.since.getTime()));
        this.#set('fulfilment_paused_seconds', { client: one, job }, (now - first) / 1_000);
      }
  }

  /** Sets the time since the last complete sweep. */
  setSweepAge(seconds: number): void {
    this.#set('fulfilment_worker_sweep_age_seconds', {}, seconds);
  }

  /** Sets the number of jobs in a queue, by state. */
  setQueue(queue: string, counts: Readonly<Record<string, number>>): void {
    for (const [state, count] of Object.entries(counts)) this.#set('fulfilment_queue_jobs', { queue, state }, count);
  }

  #setStream(row: StreamStatus, now: number): void {
    const labels = { client: row.client, stream: row.stream };
    for (const [name, , value] of streamGauges) this.#set(name, labels, value(row));
    if (row.lastSuccessAt !== null)
      this.#set('fulfilment_stream_lag_seconds', labels, (now - row.lastSuccessAt.getTime()) / 1_000);
    for (const finding of ['missing', 'stale', 'extra'] as const)
      this.#set('fulfilment_reconcile_rows', { ...labels, finding }, row[finding]);
  }

  #setOutbox({ outbox, holds, rates, database }: Snapshot, known: ReadonlySet<string>): void {
    for (const [client, rows] of Map.groupBy(outbox, (row) => (known.has(row.client) ? row.client : 'unknown'))) {
      const sum = (value: (row: (typeof rows)[number]) => number) => rows.reduce((total, row) => total + value(row), 0);
      for (const status of ['pending', 'sending', 'unknown', 'dead'] as const)
        this.#set(
          'fulfilment_outbox_rows',
          { client, status },
          sum((row) => row[status]),
        );
      this.#set(
        'fulfilment_outbox_done_last_day',
        { client },
        sum((row) => row.doneLastDay),
      );
      this.#set(
        'fulfilment_outbox_undecided_rows',
        { client },
        sum((row) => row.toDecide),
      );
      const oldest = Math.max(...rows.map((row) => row.oldestMovingSeconds ?? 0));
      this.#set('fulfilment_outbox_oldest_seconds', { client }, oldest);
    }
    if (database !== null) this.#set('fulfilment_database_changed', {}, Number(database.change !== 'none'));
    for (const health of holds) {
      const { client, kind, code, sendWindow } = health;
      // A kind with a send window of one row has had no success yet. A client with one has answered again.
      const isUnproven = kind !== '' && sendWindow === 1;
      this.#set('fulfilment_push_held', { client, kind, code }, Number(isHeld(health) || isUnproven));
    }
    for (const { client, perSecond } of rates) this.#set('fulfilment_push_rate_rows_per_second', { client }, perSecond);
  }

  #setClients({ clients, gates, parcelBacklog }: Snapshot, now: number): void {
    for (const { client } of clients) this.#set('fulfilment_parcel_reads_due', { client }, 0);
    for (const { client, shipments } of parcelBacklog) this.#set('fulfilment_parcel_reads_due', { client }, shipments);
    for (const { client, holdCode, offeredBaseUrl, servedAt } of clients) {
      this.#set('fulfilment_client_served_timestamp_seconds', { client }, toSeconds(servedAt));
      this.#set('fulfilment_client_parked', { client }, Number(offeredBaseUrl !== null));
      if (holdCode !== null) this.#set('fulfilment_client_held', { client, code: holdCode }, 1);
    }
    for (const { client, gate, nextAt, taken, spent } of gates) {
      const labels = { client, gate };
      this.#set('fulfilment_gate_opens_in_seconds', labels, Math.max(0, (nextAt.getTime() - now) / 1_000));
      this.#set('fulfilment_gate_passages', labels, taken);
      this.#set('fulfilment_gate_spent', labels, spent);
    }
  }

  #gauge(name: string, help: string, labelNames: string[]): void {
    this.#gauges.set(name, new Gauge({ name, help, labelNames, registers: [this.registry] }));
  }

  #set(name: string, labels: Record<string, string>, value: number | null): void {
    if (value !== null) this.#gauges.get(name)?.set(labels, value);
  }
}
