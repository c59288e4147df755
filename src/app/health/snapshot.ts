import type { Database } from '../../erp/connection/pool.ts';
import { isHampered, readHealth, type StoredHealth } from '../../erp/outbox/holds.ts';
import { type PushDatabase, readPushDatabase } from '../../erp/outbox/push-database.ts';
import { readRates, type StoredRate } from '../../erp/outbox/rates.ts';
import { type JobStatus, readDatabaseClock, readJobStatus } from '../../erp/reports/job-status.ts';
import { type OutboxStatus, readOutboxStatus } from '../../erp/reports/outbox-status.ts';
import { readStreamStatus, type StreamStatus } from '../../erp/reports/stream-status.ts';
import { type KnownClient, readClients } from '../../erp/runs/clients.ts';
import { readGates, type StoredGate } from '../../erp/runs/gates.ts';
import { type Pause, readPauses } from '../../erp/runs/pauses.ts';

/** How everything stands, by the database, the same whichever worker or command looks. */
export interface Snapshot {
  /** The database's clock. */
  readonly now: Date;
  readonly jobs: readonly JobStatus[];
  readonly streams: readonly StreamStatus[];
  readonly outbox: readonly OutboxStatus[];
  /** Clients and kinds of which nothing is sent, or a few rows at a time. */
  readonly holds: readonly StoredHealth[];
  /** Clients whose rows are sent more slowly, as their service asks. */
  readonly rates: readonly StoredRate[];
  readonly clients: readonly KnownClient[];
  readonly gates: readonly StoredGate[];
  readonly pauses: readonly Pause[];
  /** The database that rows are sent from; null if no worker has run yet. */
  readonly database: PushDatabase | null;
}

/** Reads all of it; on a pool of several connections side by side. */
export async function readSnapshot(db: Database): Promise<Snapshot> {
  const [now, jobs, streams, outbox, health, rates, clients, gates, pauses, database] = await Promise.all([
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
  ]);
  return { now, jobs, streams, outbox, holds: health.filter(isHampered), rates, clients, gates, pauses, database };
}
