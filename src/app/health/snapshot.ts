import { readAlertBacklog } from '../../erp/alerts/posts.ts';
import type { Database } from '../../erp/connection/pool.ts';
import { readEventBacklog } from '../../erp/events/deliver-events.ts';
import { isRestricted, readHealth, type StoredHealth } from '../../erp/outbox/holds.ts';
import { readPushDatabase } from '../../erp/outbox/push-database.ts';
import { countWatchedArticles, readNotifyQueue } from '../../erp/reports/database-facts.ts';
import { readDatabaseClock, readJobStatus } from '../../erp/reports/job-status.ts';
import { readOutboxStatus } from '../../erp/reports/outbox-status.ts';
import { readStreamStatus } from '../../erp/reports/stream-status.ts';
import { readParcelBacklog } from '../../erp/resources/parcel-reads.ts';
import { readClients } from '../../erp/runs/clients.ts';
import { readGates } from '../../erp/runs/gates.ts';
import { readPauses } from '../../erp/runs/pauses.ts';
import { readSchemaDrift } from '../../erp/schema/drift.ts';

/** The state of all clients as the database has it. Every worker and command sees the same. */
export type Snapshot = Readonly<Awaited<ReturnType<typeof readSnapshot>>>;

/** Reads the snapshot. The queries run at the same time, on several connections of the pool. */
export const readSnapshot = (db: Database) =>
  waitForAll({
    /** The database's clock. */
    now: readDatabaseClock(db),
    jobs: readJobStatus(db),
    streams: readStreamStatus(db),
    outbox: readOutboxStatus(db),
    /** Push holds, and clients and kinds that are sent only a few rows at a time. */
    holds: readHolds(db),
    clients: readClients(db),
    gates: readGates(db),
    pauses: readPauses(db),
    /** The database that rows are sent from; null if no worker has run yet. */
    database: readPushDatabase(db),
    /** Clients that have articles in stock_watch. */
    watchedArticles: countWatchedArticles(db),
    /** Look-ups of packages that are due, by client. */
    parcelBacklog: readParcelBacklog(db),
    /** Posts to ALERT_WEBHOOK_URL that were not delivered. */
    alerts: readAlertBacklog(db),
    /** Subscribers whose business events are not delivered. */
    events: readEventBacklog(db),
    /** Used part of the server's NOTIFY queue, from 0 to 1. */
    notifyQueue: readNotifyQueue(db),
    /** Parts of the schema that are missing. */
    drift: readMissingParts(db),
  });

async function readMissingParts(db: Database): Promise<readonly string[]> {
  return (await readSchemaDrift(db)).missing;
}

/** Waits for all parts at once, and returns their results by name. */
async function waitForAll<T extends Readonly<Record<string, Promise<unknown>>>>(parts: T) {
  const results = await Promise.all(Object.values(parts));
  const entries = Object.keys(parts).map((name, index) => [name, results[index]]);
  return Object.fromEntries(entries) as { [Name in keyof T]: Awaited<T[Name]> };
}

async function readHolds(db: Database): Promise<StoredHealth[]> {
  return (await readHealth(db)).filter(isRestricted);
}
