import { setTimeout as wait } from 'node:timers/promises';
import type { Config } from '../../../config/env.ts';
import type { JobName } from '../../../config/jobs.ts';
import { isAutomatic, type Schedule } from '../../../config/schedules.ts';
import { CodedError } from '../../core/errors.ts';
import { formatSpan, hourMs, minuteMs } from '../../core/time.ts';
import type { Database } from '../../erp/connection/pool.ts';
import { type JobStatus, readDatabaseClock } from '../../erp/reports/job-status.ts';
import { type RecentRuns, readRecentRuns } from '../../erp/reports/run-list.ts';
import { findNextDue } from '../../erp/runs/due-times.ts';
import { createProblem, findProblems, type Problem, sortBySeverity } from './problems.ts';
import { readSnapshot, type Snapshot } from './snapshot.ts';
import { readTrends, type Trends } from './trends.ts';

/** Bounds of the time that a job may be overdue before it is late: twice its interval, but within these bounds. */
const minGraceMs = minuteMs;
const maxGraceMs = 6 * hourMs;

/** A job whose last success is older than its schedule allows. */
export interface LateJob {
  readonly client: string;
  readonly job: string;
  /** Time of the last success; null if there was none. */
  readonly lastSuccessAt: Date | null;
  /** Time from which on the job is late. */
  readonly since: Date;
  readonly because: 'failing' | 'paused' | 'not run';
}

/**
 * Finds the jobs that are late by their schedule, the longest first. For a job without a success, the time counts from
 * the acceptance of its client's account.
 */
export function findLateJobs(
  jobs: readonly JobStatus[],
  schedules: Readonly<Partial<Record<string, Schedule>>>,
  acceptedAt: ReadonlyMap<string, Date>,
  now: Date,
): LateJob[] {
  return jobs
    .flatMap((row): LateJob[] => {
      const schedule = schedules[row.job as JobName];
      const from = row.lastSuccessAt ?? acceptedAt.get(row.client);
      if (schedule === undefined || from === undefined) return [];
      if (row.lastSuccessAt === null && (row.running || isFirstRunAhead(row, now))) return [];
      const since = findLateSince(schedule, from, row);
      if (since === null || since > now) return [];
      const because = row.pausedSince !== null ? 'paused' : row.consecutiveFailures > 0 ? 'failing' : 'not run';
      return [{ client: row.client, job: row.job, lastSuccessAt: row.lastSuccessAt, since, because }];
    })
    .sort((one, other) => one.since.getTime() - other.since.getTime());
}

/** Returns true if the job has never run and is due later: its schedule may be younger than its client. */
const isFirstRunAhead = ({ dueAt, consecutiveFailures }: JobStatus, now: Date) =>
  consecutiveFailures === 0 && dueAt !== null && dueAt > now;

/** Returns the time from which on a job is late; null if its schedule never makes it due. */
function findLateSince(configured: Schedule, lastSuccessAt: Date, key: { client: string; job: string }): Date | null {
  // A job with two intervals may have slowed down to the longer one.
  const schedule: Schedule =
    configured.kind === 'every' ? { kind: 'every', everyMs: configured.slowMs ?? configured.everyMs } : configured;
  const due = findNextDue(schedule, lastSuccessAt, key);
  if (due === null) return null;
  const after = findNextDue(schedule, due, key) ?? due;
  const graceMs = Math.min(maxGraceMs, Math.max(minGraceMs, 2 * (after.getTime() - due.getTime())));
  return new Date(due.getTime() + graceMs);
}

/** How long a result is reused, in milliseconds, so that many watchers cost the database no more than one. */
const cacheMs = 1_500;
/** How long charts are reused, in milliseconds. Their figures change once a minute. */
const chartCacheMs = 15_000;
/** Number of recent runs of each stream that the overview draws as bars. */
const barsShown = 24;

/** The state in the database that probes, metrics and the overview show. */
export interface CurrentState {
  readonly snapshot: Snapshot;
  readonly stale: readonly LateJob[];
  /** Returns true if this worker runs the job of the client by a schedule. */
  readonly isScheduled: (client: string, job: string) => boolean;
}

/** The data of the overview page. */
export interface Overview extends CurrentState {
  readonly problems: readonly Problem[];
  readonly recent: readonly RecentRuns[];
  /** Figures of all clients together. */
  readonly charts: readonly Trends[];
}

/** Reuses the result of `read` for a while. Callers at the same time wait for the same result. */
function cacheBriefly<T>(read: () => Promise<T>, forMs = cacheMs): () => Promise<T> {
  let reading: Promise<T> | undefined;
  return () => {
    if (reading !== undefined) return reading;
    const started = read();
    const forget = () => {
      reading = undefined;
    };
    // The time starts when the result is there, so a slow read is not started twice. A failure is not reused.
    started.then(() => setTimeout(forget, forMs).unref(), forget);
    reading = started;
    return started;
  };
}

/** Reads the current state, as a process with this configuration sees it. */
export async function readCurrentState(db: Database, config: Config): Promise<CurrentState> {
  const configuredClients = new Set(config.clients.map(({ key }) => key));
  const schedules: Readonly<Partial<Record<string, Schedule>>> = config.schedules;
  const isScheduled = (client: string, job: string) => {
    const schedule = schedules[job];
    return configuredClients.has(client) && schedule !== undefined && isAutomatic(schedule);
  };
  const snapshot = await readSnapshot(db);
  const acceptedAtByClient = new Map(snapshot.clients.map(({ client, acceptedAt }) => [client, acceptedAt]));
  const jobs = snapshot.jobs.filter(({ client }) => configuredClients.has(client));
  return { snapshot, stale: findLateJobs(jobs, config.schedules, acceptedAtByClient, snapshot.now), isScheduled };
}

/** Creates the functions with which all parts of the admin server read the current state. */
export function openStateReaders(db: Database, config: Config) {
  const readState = cacheBriefly(() => readCurrentState(db, config));
  const readCharts = cacheBriefly(async () => readTrends(db, '', await readDatabaseClock(db)), chartCacheMs);
  const readOverview = cacheBriefly(async (): Promise<Overview> => {
    const [state, recent, charts] = [await readState(), await readRecentRuns(db, barsShown), await readCharts()];
    return { ...state, recent, charts, problems: findCurrentProblems(state, config) };
  });
  return { readState, readOverview };
}

/** Finds all problems of a state, as a process with this configuration sees them. The worst come first. */
export function findCurrentProblems({ snapshot, stale, isScheduled }: CurrentState, config: Config): Problem[] {
  const jobs = snapshot.jobs.filter(({ client, job }) => isScheduled(client, job));
  const streams = snapshot.streams.filter(({ client, job }) => isScheduled(client, job));
  const late = stale.filter(({ because }) => because === 'not run').map((job) => toLateJobProblem(job, snapshot.now));
  return sortBySeverity([...late, ...findProblems({ ...snapshot, jobs, streams }, config)]);
}

/** Makes a problem of a job that is late because it did not run. Failing and paused jobs have problems already. */
function toLateJobProblem({ client, job, lastSuccessAt, since }: LateJob, now: Date): Problem {
  const late = formatSpan((now.getTime() - since.getTime()) / 1_000);
  const text = `late for ${late}; last success: ${lastSuccessAt?.toISOString() ?? 'never'}`;
  const remedy = `check that a worker is running and that the client is not held; run it now with: fulfilment-sync run ${job} --client ${client}`;
  return createProblem('job_late', { client, part: job }, text, remedy);
}

/** Timeout of a read in milliseconds. A scrape or a probe gives up after about ten seconds. */
const readTimeoutMs = 3_000;

/**
 * Waits for a read, but not for long. Without this, a database that does not answer would also delay everything that
 * does not need it.
 * @throws CodedError `not_in_time`
 */
export async function withReadTimeout<T>(read: Promise<T>): Promise<T> {
  const done = new AbortController();
  const late = wait(readTimeoutMs, undefined, { signal: done.signal }).then(() => {
    throw new CodedError('not_in_time', `There was no answer within ${readTimeoutMs / 1_000} s`);
  });
  try {
    return await Promise.race([read, late]);
  } finally {
    done.abort();
  }
}
