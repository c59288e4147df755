import { setTimeout as wait } from 'node:timers/promises';
import type { Config } from '../../../config/env.ts';
import { isAutomatic, type Schedule } from '../../../config/schedules.ts';
import { CodedError } from '../../core/errors.ts';
import { formatSpan } from '../../core/time.ts';
import type { Database } from '../../erp/connection/pool.ts';
import { readDatabaseClock } from '../../erp/reports/job-status.ts';
import { type RecentRuns, readRecentRuns } from '../../erp/reports/run-list.ts';
import { findAlertProblems, findParcelProblems, findProblems, findStockProblems } from './find-problems.ts';
import { findLateJobs, type LateJob } from './late-jobs.ts';
import { createProblem, type Problem } from './problem.ts';
import { readSnapshot, type Snapshot } from './snapshot.ts';
import { type ChartedSpan, readTrends } from './trends.ts';

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
  readonly charts: readonly ChartedSpan[];
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
  const problems = [
    ...toLateJobProblems(stale, snapshot),
    ...findProblems(keepScheduledJobs(snapshot, isScheduled), config.LOOKBACK_DAYS),
    ...findStockProblems(snapshot.watchedArticles, config.schedules['pull-stock']),
    ...findParcelProblems(snapshot.parcelBacklog, config),
    ...findAlertProblems(snapshot.alerts, snapshot.now),
  ];
  return problems.sort(bySeverity);
}

/**
 * Removes the jobs and streams that this worker does not run by a schedule. Their last error would stay forever:
 * nothing runs a job again that is off, or that belongs to a command.
 */
function keepScheduledJobs(snapshot: Snapshot, isScheduled: Overview['isScheduled']): Snapshot {
  return {
    ...snapshot,
    jobs: snapshot.jobs.filter(({ client, job }) => isScheduled(client, job)),
    streams: snapshot.streams.filter(({ client, job }) => isScheduled(client, job)),
  };
}

const severities: readonly Problem['severity'][] = ['bad', 'warn', 'note'];
const bySeverity = (one: Problem, other: Problem) =>
  severities.indexOf(one.severity) - severities.indexOf(other.severity);

/** Makes a problem of each job that is late because it did not run. Failing and paused jobs have problems already. */
function toLateJobProblems(stale: readonly LateJob[], { now }: Snapshot): Problem[] {
  return stale
    .filter(({ because }) => because === 'not run')
    .map(({ client, job, lastSuccessAt, since }) =>
      createProblem(
        'job_late',
        'bad',
        { client, part: job },
        `late for ${formatSpan((now.getTime() - since.getTime()) / 1_000)}; last success: ${lastSuccessAt === null ? 'never' : lastSuccessAt.toISOString()}`,
        `check that a worker is running and that the client is not held; run it now with: fulfilment-sync run ${job} --client ${client}`,
      ),
    );
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
