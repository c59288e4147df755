import { Gauge, type Registry } from 'prom-client';
import { isHeld } from '../../erp/outbox/holds.ts';
import type { JobStatus } from '../../erp/reports/job-status.ts';
import type { StreamStatus } from '../../erp/reports/stream-status.ts';
import type { Standing } from '../health/overview.ts';
import type { Snapshot } from '../health/snapshot.ts';

const seconds = (date: Date | null) => (date === null ? null : date.getTime() / 1_000);

/** Of each client and stream; null is left out. */
const ofStreams: readonly (readonly [name: string, help: string, value: (row: StreamStatus) => number | null])[] = [
  ['fulfilment_stream_last_attempt_timestamp_seconds', 'When a poll last began', (row) => seconds(row.lastAttemptAt)],
  [
    'fulfilment_stream_last_success_timestamp_seconds',
    'When a poll last read everything',
    (row) => seconds(row.lastSuccessAt),
  ],
  [
    'fulfilment_stream_last_change_timestamp_seconds',
    'When a poll last changed a row',
    (row) => seconds(row.lastChangeAt),
  ],
  [
    'fulfilment_stream_newest_source_timestamp_seconds',
    'Newest date on any resource received, by the service',
    (row) => seconds(row.newestSourceAt),
  ],
  ['fulfilment_stream_first_load', '1 while some list was not yet read to its end', (row) => Number(row.firstLoad)],
  ['fulfilment_stream_rows_last_day', 'Rows that polls changed in 24 hours', (row) => row.changedLastDay],
  ['fulfilment_stream_usual_rows_per_day', 'Rows that polls usually change in a day', (row) => row.usualPerDay],
  ['fulfilment_stream_gaps', 'Spans nobody read, that can no longer be listed', (row) => row.gaps.length],
  ['fulfilment_quarantine_rows', 'Resources in quarantine', (row) => row.quarantined],
  ['fulfilment_reconcile_timestamp_seconds', 'When a reconciliation last got done', (row) => seconds(row.reconciledAt)],
  [
    'fulfilment_reconcile_lateness_p99_seconds',
    'How far back the dates of healed changes lay, 99 % of them at most; of streams that are read by day',
    (row) => (row.readByDay ? row.lateSecondsP99 : null),
  ],
];

/** Of each client and job. */
const ofJobs: readonly (readonly [name: string, help: string, value: (row: JobStatus) => number | null])[] = [
  ['fulfilment_job_running', '1 while a run has the lease', (row) => Number(row.running)],
  [
    'fulfilment_job_due_timestamp_seconds',
    'When it is due; absent where it does not come by itself',
    (row) => seconds(row.dueAt),
  ],
  [
    'fulfilment_job_consecutive_failures',
    'Runs that failed since the last one that got done',
    (row) => row.consecutiveFailures,
  ],
  ['fulfilment_job_skips', 'Runs that were refused or missed so far', (row) => row.skips],
];

/** What the database says, the same at every worker: take the maximum over workers, not the sum. */
export class StateMetrics {
  readonly #gauges = new Map<string, Gauge>();
  readonly #registry: Registry;

  constructor(registry: Registry) {
    this.#registry = registry;
    for (const [name, help] of ofStreams) this.#gauge(name, help, ['client', 'stream']);
    for (const [name, help] of ofJobs) this.#gauge(name, help, ['client', 'job']);
    this.#gauge('fulfilment_stream_lag_seconds', 'Since a poll last read everything', ['client', 'stream']);
    this.#gauge('fulfilment_reconcile_rows', 'What the last reconciliation found', ['client', 'stream', 'finding']);
    this.#gauge('fulfilment_job_late_seconds', 'For how long it should have got done; 0: it is not late', [
      'client',
      'job',
    ]);
    this.#gauge('fulfilment_paused_seconds', 'How long a job (also push-outbox) is paused by now', ['client', 'job']);
    this.#gauge('fulfilment_lookback_days', 'LOOKBACK_DAYS of this worker', []);
    this.#gauge('fulfilment_outbox_rows', 'Rows that are not through, by status', ['client', 'status']);
    this.#gauge('fulfilment_outbox_done_last_day', 'Rows that got through in 24 hours', ['client']);
    this.#gauge('fulfilment_outbox_undecided_rows', 'Unknown rows that wait for a person', ['client']);
    this.#gauge(
      'fulfilment_outbox_oldest_seconds',
      'Age of the oldest row that is on its way: not dead, nor for a person to decide',
      ['client'],
    );
    this.#gauge('fulfilment_push_held', '1 while nothing of a client (kind empty) or kind gets through, by code', [
      'client',
      'kind',
      'code',
    ]);
    this.#gauge(
      'fulfilment_database_changed',
      '1 while nothing is sent: the database was restored, copied or moved, or a failover lost commits',
      [],
    );
    this.#gauge('fulfilment_push_rate_rows_per_second', 'Rows a second that are sent to a service that answers 429', [
      'client',
    ]);
    this.#gauge('fulfilment_client_served_timestamp_seconds', 'When a worker that pushes for it was last there', [
      'client',
    ]);
    this.#gauge('fulfilment_client_held', '1 while scheduled runs of a client are held, by code', ['client', 'code']);
    this.#gauge('fulfilment_client_parked', '1 while somebody is set up with another account', ['client']);
    this.#gauge('fulfilment_gate_opens_in_seconds', 'Until a call may be made again; 0: now', ['client', 'gate']);
    this.#gauge('fulfilment_gate_passages', 'Calls made so far', ['client', 'gate']);
    this.#gauge('fulfilment_gate_spent', 'Calls whose end nobody noted: a worker was lost', ['client', 'gate']);
    this.#gauge('fulfilment_queue_jobs', 'Jobs in the queue', ['queue', 'state']);
    this.#gauge('fulfilment_database_up', '1 where the state could be read just now', []);
  }

  /** The database could not be read: what it said before is no news. */
  setUnknown(): void {
    for (const gauge of this.#gauges.values()) gauge.reset();
    this.#set('fulfilment_database_up', {}, 0);
  }

  /** @param own clients that this worker is set up with */
  set({ snapshot, stale, isScheduled }: Standing, own: readonly string[], lookbackDays: number): void {
    this.setUnknown();
    this.#set('fulfilment_database_up', {}, 1);
    this.#set('fulfilment_lookback_days', {}, lookbackDays);
    const now = snapshot.now.getTime();
    for (const row of snapshot.streams) this.#setStream(row, now);
    // What is off, or was a command's own, stays as it last was: nobody could end an alert of it.
    for (const row of snapshot.jobs.filter(({ client, job }) => isScheduled(client, job))) {
      const labels = { client: row.client, job: row.job };
      for (const [name, , value] of ofJobs) this.#set(name, labels, value(row));
      this.#set('fulfilment_job_late_seconds', labels, 0);
    }
    for (const { client, job, since } of stale)
      this.#set('fulfilment_job_late_seconds', { client, job }, (now - since.getTime()) / 1_000);
    // An ERP may write any client into a row.
    this.#setOutbox(snapshot, new Set([...own, ...snapshot.clients.map(({ client }) => client)]));
    this.#setClients(snapshot, now);
    for (const { client, job, since } of snapshot.pauses)
      for (const one of client === null ? own : [client]) {
        // A client's own pause beside one of all: the longer counts.
        const others = snapshot.pauses.filter((pause) => pause.job === job && (pause.client ?? one) === one);
        const first = Math.min(since.getTime(), ...others.map((pause) => pause.since.getTime()));
        this.#set('fulfilment_paused_seconds', { client: one, job }, (now - first) / 1_000);
      }
  }

  /** Jobs of a queue by state. */
  setQueue(queue: string, counts: Readonly<Record<string, number>>): void {
    for (const [state, count] of Object.entries(counts)) this.#set('fulfilment_queue_jobs', { queue, state }, count);
  }

  #setStream(row: StreamStatus, now: number): void {
    const labels = { client: row.client, stream: row.stream };
    for (const [name, , value] of ofStreams) this.#set(name, labels, value(row));
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
      // No row of a kind that is tried one row at a time has got through yet; a client is there again.
      const isTried = kind !== '' && sendWindow === 1;
      this.#set('fulfilment_push_held', { client, kind, code }, Number(isHeld(health) || isTried));
    }
    for (const { client, perSecond } of rates) this.#set('fulfilment_push_rate_rows_per_second', { client }, perSecond);
  }

  #setClients({ clients, gates }: Snapshot, now: number): void {
    for (const { client, holdCode, offeredBaseUrl, servedAt } of clients) {
      this.#set('fulfilment_client_served_timestamp_seconds', { client }, seconds(servedAt));
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
    this.#gauges.set(name, new Gauge({ name, help, labelNames, registers: [this.#registry] }));
  }

  #set(name: string, labels: Record<string, string>, value: number | null): void {
    if (value !== null) this.#gauges.get(name)?.set(labels, value);
  }
}
