import { type KnownClient, readClients } from '../../erp/clients.ts';
import type { Database } from '../../erp/connect.ts';
import { readGates, type StoredGate } from '../../erp/gates.ts';
import { type OutboxStatus, readOutboxStatus } from '../../erp/outbox-status.ts';
import { type Pause, readPauses } from '../../erp/pauses.ts';
import { readHolds, type StoredHold } from '../../erp/push-holds.ts';
import { type JobStatus, readDatabaseClock, readJobStatus } from '../../erp/status.ts';
import { readStreamStatus, type StreamStatus } from '../../erp/stream-status.ts';

/** How everything stands, by the database, the same whichever worker or command looks. */
export interface Snapshot {
  /** The database's clock. */
  readonly now: Date;
  readonly jobs: readonly JobStatus[];
  readonly streams: readonly StreamStatus[];
  readonly outbox: readonly OutboxStatus[];
  readonly holds: readonly StoredHold[];
  readonly clients: readonly KnownClient[];
  readonly gates: readonly StoredGate[];
  readonly pauses: readonly Pause[];
}

/** Reads all of it; on a pool of several connections side by side. */
export async function readSnapshot(db: Database): Promise<Snapshot> {
  const [now, jobs, streams, outbox, holds, clients, gates, pauses] = await Promise.all([
    readDatabaseClock(db),
    readJobStatus(db),
    readStreamStatus(db),
    readOutboxStatus(db),
    readHolds(db, null),
    readClients(db),
    readGates(db),
    readPauses(db),
  ]);
  return { now, jobs, streams, outbox, holds, clients, gates, pauses };
}
