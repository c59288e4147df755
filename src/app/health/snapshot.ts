import { type AlertBacklog, readAlertBacklog } from '../../erp/alerts/posts.ts';
import type { Database } from '../../erp/connection/pool.ts';
import { isRestricted, readHealth, type StoredHealth } from '../../erp/outbox/holds.ts';
import { type PushDatabase, readPushDatabase } from '../../erp/outbox/push-database.ts';
import { readRates, type StoredRate } from '../../erp/outbox/rates.ts';
import { countWatchedArticles, readNotifyQueue, type WatchedArticles } from '../../erp/reports/database-facts.ts';
import { type JobStatus, readDatabaseClock, readJobStatus } from '../../erp/reports/job-status.ts';
import { type OutboxStatus, readOutboxStatus } from '../../erp/reports/outbox-status.ts';
import { readStreamStatus, type StreamStatus } from '../../erp/reports/stream-status.ts';
import { type ParcelBacklog, readParcelBacklog } from '../../erp/resources/parcel-reads.ts';
import { type KnownClient, readClients } from '../../erp/runs/clients.ts';
import { readGates, type StoredGate } from '../../erp/runs/gates.ts';
import { type Pause, readPauses } from '../../erp/runs/pauses.ts';

/** The state of all clients as the database has it. Every worker and command sees the same. */
export interface Snapshot {
  /** The database's clock. */
  readonly now: Date;
  readonly jobs: readonly JobStatus[];
  readonly streams: readonly StreamStatus[];
  readonly outbox: readonly OutboxStatus[];
  /** Push holds, and clients and kinds that are sent only a few rows at a time. */
  readonly holds: readonly StoredHealth[];
  /** Send rates of the clients whose service answered 429. */
  readonly rates: readonly StoredRate[];
  readonly clients: readonly KnownClient[];
  readonly gates: readonly StoredGate[];
  readonly pauses: readonly Pause[];
  /** The database that rows are sent from; null if no worker has run yet. */
  readonly database: PushDatabase | null;
  /** Clients that have articles in stock_watch. */
  readonly watchedArticles: readonly WatchedArticles[];
  /** Look-ups of packages that are due, by client. */
  readonly parcelBacklog: readonly ParcelBacklog[];
  /** Posts to ALERT_WEBHOOK_URL that were not delivered. */
  readonly alerts: AlertBacklog;
  /** Used part of the server's NOTIFY queue, from 0 to 1. */
  readonly notifyQueue: number;
}

/** Reads the snapshot. The queries run at the same time, on several connections of the pool. */
export async function readSnapshot(db: Database): Promise<Snapshot> {
  const [
    now,
    jobs,
    streams,
    outbox,
    health,
    rates,
    clients,
    gates,
    pauses,
    database,
    watchedArticles,
    parcelBacklog,
    alerts,
    notifyQueue,
  ] = await Promise.all([
    readDatabaseClock(db),
    readJobStatus(db),
    readStreamStatus(db),
    readOutboxStatus(db),
    readHealth(db, null),
    readRates(db),
    readClients(db),
    readGates(db),
    readPauses(db),
    readPushDatabase(db),
    countWatchedArticles(db),
    readParcelBacklog(db),
    readAlertBacklog(db),
    readNotifyQueue(db),
  ]);
  return {
    now,
    jobs,
    streams,
    outbox,
    holds: health.filter(isRestricted),
    rates,
    clients,
    gates,
    pauses,
    database,
    watchedArticles,
    parcelBacklog,
    alerts,
    notifyQueue,
  };
}
