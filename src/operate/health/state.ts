/** The current state: as the database has it, and as a process with its configuration sees it. */

import type { Config } from '../../../config/env.ts';
import { isAutomatic, type Schedule } from '../../../config/schedules.ts';
import { hourMs, minuteMs } from '../../core/time.ts';
import { readSchemaDrift } from '../../db/drift.ts';
import type { Database } from '../../db/pool.ts';
import { readFeedBacklog } from '../../pull/sql/feed.ts';
import { readParcelBacklog } from '../../pull/sql/parcel-rows.ts';
import { readListLags } from '../../push/sql/look-ups.ts';
import { readPushDatabase } from '../../push/sql/push-database.ts';
import { type JobKey, planNext } from '../../schedule/plan-next.ts';
import { readPauses } from '../../schedule/sql/pauses.ts';
import { readTurns } from '../../schedule/sql/turns.ts';
import { readClients } from '../../service/sql/clients.ts';
import { isRestricted, readHealth, type StoredHealth } from '../../service/sql/service-health.ts';
import { countWatchedArticles, readNotifyQueue, takesNoWrites } from '../sql/database-facts.ts';
import { type JobStatus, readDatabaseClock, readJobStatus } from '../sql/job-status.ts';
import { readOutboxStatus } from '../sql/outbox-status.ts';
import { readStreamStatus } from '../sql/stream-status.ts';
import { readDeliveryBacklog } from '../sql/undelivered.ts';
import { limits } from './problem.ts';

/** The state of all clients as the database has it. Every worker and command sees the same. */
export type Snapshot = Readonly<Awaited<ReturnType<typeof readSnapshot>>>;

/**
 * Reads the snapshot. The queries run at the same time, on several connections of the pool.
 * @param clients clients that are known although no worker has served them yet
 */
export const readSnapshot = (db: Database, clients: readonly string[] = []) =>
  waitForAll({
    /** The database's clock. */
    now: readDatabaseClock(db),
    jobs: readJobStatus(db),
    streams: readStreamStatus(db),
    outbox: readOutboxStatus(db),
    /** Health of clients, kinds and jobs that are held, or asked only a little. */
    holds: readHolds(db),
    clients: readClients(db),
    gates: readTurns(db, 'track-trace'),
    pauses: readPauses(db),
    /** The database that rows are sent from; null if no worker has run yet. */
    database: readPushDatabase(db),
    /** How long the lists of each client's service have lagged. */
    listLags: readListLags(db),
    /** Clients that have articles in stock_watch. */
    watchedArticles: countWatchedArticles(db, clients),
    /** Look-ups of packages that are due, by client. */
    parcelBacklog: readParcelBacklog(db),
    /** Receivers that do not take their business events or alerts. */
    deliveries: readDeliveryBacklog(db),
    /** Changes that are not in the feed yet. */
    feed: readFeedBacklog(db),
    /** True if the database takes no writes. */
    readOnly: takesNoWrites(db),
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

/** The state in the database that probes, metrics, the pages and `status` show. */
export interface CurrentState {
  readonly snapshot: Snapshot;
  readonly stale: readonly LateJob[];
  /** Milliseconds that the clock of this machine is ahead of the database's. */
  readonly clockSkewMs: number;
  /**
   * Since when this process knows that the disk of Postgres is full; null: it is not, as far as it
   * knows.
   */
  readonly diskFullSince: Date | null;
  /** Returns true if this process has the client, and runs its job by a schedule. */
  readonly isScheduled: (client: string, job: string) => boolean;
}

/** Reads the current state. A command without clients sees those of all workers. */
export async function readCurrentState(
  db: Database,
  config: Config,
  diskFullSince: Date | null = null,
): Promise<CurrentState> {
  const configured = new Set(config.clients.map(({ key }) => key));
  const schedules: Readonly<Partial<Record<string, Schedule>>> = config.schedules;
  const isOurs = (client: string) => configured.size === 0 || configured.has(client);
  const isScheduled = (client: string, job: string) => {
    const schedule = schedules[job];
    return isOurs(client) && schedule !== undefined && isAutomatic(schedule);
  };

  const askedAtMs = Date.now();
  const snapshot = await readSnapshot(db, [...configured]);
  const clockSkewMs = toClockSkewMs(askedAtMs, snapshot.now);

  const acceptedAtByClient = new Map(
    snapshot.clients.map(({ client, acceptedAt }) => [client, acceptedAt]),
  );
  const jobs = snapshot.jobs.filter(({ client }) => isOurs(client));
  const stale = findLateJobs(jobs, config.schedules, acceptedAtByClient, snapshot.now);
  return { snapshot, stale, clockSkewMs, diskFullSince, isScheduled };
}

/**
 * Returns by how many milliseconds the clock of this machine is ahead of the database's, which was
 * read after `askedAtMs`; 0 if they may agree.
 */
export function toClockSkewMs(askedAtMs: number, databaseNow: Date): number {
  const [earliestMs, latestMs] = [
    askedAtMs - databaseNow.getTime(),
    Date.now() - databaseNow.getTime(),
  ];
  return earliestMs > 0 ? earliestMs : Math.min(0, latestMs);
}

/**
 * Bounds of the time that a job may be overdue before it is late: twice its interval, but within
 * these bounds.
 */
const minGraceMs = minuteMs;
const maxGraceMs = 6 * hourMs;

/** A job whose last success is older than its schedule allows. */
export interface LateJob extends JobKey {
  /** Time of the last success; null if there was none. */
  readonly lastSuccessAt: Date | null;
  /** Time from which on the job is late. */
  readonly since: Date;
  readonly because: 'failing' | 'paused' | 'not run';
}

/**
 * Finds the jobs that are late by their schedule, the longest first. For a job without a success,
 * the time counts from the acceptance of its client's account.
 */
export function findLateJobs(
  jobs: readonly JobStatus[],
  schedules: Readonly<Partial<Record<string, Schedule>>>,
  acceptedAt: ReadonlyMap<string, Date>,
  now: Date,
): LateJob[] {
  return jobs
    .flatMap((row): LateJob[] => {
      const { client, job, lastSuccessAt, pausedSince, consecutiveFailures } = row;
      const schedule = schedules[job];
      const from = lastSuccessAt ?? acceptedAt.get(client);
      if (schedule === undefined || from === undefined) return [];

      const since = findLateSince(schedule, from, row);
      if (since === null || since > now || isCatchingUp(row, since, now)) return [];

      const unpaused = consecutiveFailures > 0 ? 'failing' : 'not run';
      const because = pausedSince === null ? unpaused : 'paused';
      return [{ client, job, lastSuccessAt, since, because }];
    })
    .sort((one, other) => one.since.getTime() - other.since.getTime());
}

/** Returns true if a run makes up for what is late, or if the first run is still to come. */
const isCatchingUp = (row: JobStatus, since: Date, now: Date) =>
  (isRunningShortly(row, now) && now.getTime() - since.getTime() < limits.longMs) ||
  (row.lastSuccessAt === null && (row.running || isFirstRunAhead(row, now)));

/**
 * Returns true if a run began in the last hour and is under way: what it makes up for needs nobody.
 */
const isRunningShortly = ({ running, lastStartedAt }: JobStatus, now: Date) =>
  running && lastStartedAt !== null && now.getTime() - lastStartedAt.getTime() < hourMs;

/**
 * Returns true if the job has never run and is due later: its schedule may be younger than its
 * client.
 */
const isFirstRunAhead = ({ dueAt, consecutiveFailures }: JobStatus, now: Date) =>
  consecutiveFailures === 0 && dueAt !== null && dueAt > now;

/** Returns the time from which on a job is late; null if its schedule never makes it due. */
function findLateSince(configured: Schedule, lastSuccessAt: Date, key: JobKey): Date | null {
  // A job with two intervals may have slowed down to the longer one.
  const schedule: Schedule =
    configured.kind === 'every'
      ? { kind: 'every', everyMs: configured.slowMs ?? configured.everyMs }
      : configured;
  const due = planNext(schedule, key, { kind: 'begin', at: lastSuccessAt });
  if (due === null) return null;

  const after = planNext(schedule, key, { kind: 'begin', at: due }) ?? due;
  const graceMs = Math.min(maxGraceMs, Math.max(minGraceMs, 2 * (after.getTime() - due.getTime())));
  return new Date(due.getTime() + graceMs);
}
