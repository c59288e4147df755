import type { Config } from '../../../config/env.ts';
import { comesByItself, type Schedule } from '../../../config/schedules.ts';
import { formatSpan } from '../../core/time.ts';
import type { Database } from '../../erp/connection/pool.ts';
import { type RecentRuns, readRecentRuns } from '../../erp/reports/run-list.ts';
import type { Problem } from './problem.ts';
import { findProblems } from './problems.ts';
import { readSnapshot, type Snapshot } from './snapshot.ts';
import { findStale, type StaleJob } from './staleness.ts';

/** Whoever asks again so soon gets the same answer: many watchers cost the database no more than one. */
const freshMs = 1_500;
const barsShown = 24;

/** What a probe, the metrics and the overview are made of. */
export interface Standing {
  readonly snapshot: Snapshot;
  readonly stale: readonly StaleJob[];
  /** Whether this worker is set up to run a job of a client by itself. */
  readonly isScheduled: (client: string, job: string) => boolean;
}

/** All that the overview shows. */
export interface Overview extends Standing {
  readonly problems: readonly Problem[];
  readonly recent: readonly RecentRuns[];
}

/** Remembers what was read for a moment; askers at the same time wait for the same answer. */
function remembered<T>(read: () => Promise<T>): () => Promise<T> {
  let reading: Promise<T> | undefined;
  return () => {
    if (reading !== undefined) return reading;
    const started = read();
    const forget = () => {
      reading = undefined;
    };
    // From when it is there: one that takes long is not asked once more meanwhile. A failure is not remembered.
    started.then(() => setTimeout(forget, freshMs).unref(), forget);
    reading = started;
    return started;
  };
}

/** Reads how everything stands, for all parts of the admin server. */
export function openStandings({ db, config }: { readonly db: Database; readonly config: Config }) {
  const own = new Set(config.clients.map(({ key }) => key));
  const schedules: Readonly<Partial<Record<string, Schedule>>> = config.schedules;
  const isScheduled = (client: string, job: string) => {
    const schedule = schedules[job];
    return own.has(client) && schedule !== undefined && comesByItself(schedule);
  };
  const standing = remembered(async (): Promise<Standing> => {
    const snapshot = await readSnapshot(db);
    const cameAt = new Map(snapshot.clients.map(({ client, acceptedAt }) => [client, acceptedAt]));
    const jobs = snapshot.jobs.filter(({ client }) => own.has(client));
    return { snapshot, stale: findStale(jobs, config.schedules, cameAt, snapshot.now), isScheduled };
  });
  const overview = remembered(async (): Promise<Overview> => {
    const [{ snapshot, stale }, recent] = [await standing(), await readRecentRuns(db, barsShown)];
    const problems = [
      ...problemsOfStale(stale, snapshot),
      ...findProblems(ofThisWorker(snapshot, isScheduled), config.LOOKBACK_DAYS),
    ];
    return { snapshot, stale, recent, problems: problems.sort(bySeverity), isScheduled };
  });
  return { standing, overview };
}

/**
 * Without what stands for ever where nobody goes on with it: the last error of a job that is off by now, or that was a
 * command's own.
 */
function ofThisWorker(snapshot: Snapshot, isScheduled: Overview['isScheduled']): Snapshot {
  return {
    ...snapshot,
    jobs: snapshot.jobs.filter(({ client, job }) => isScheduled(client, job)),
    streams: snapshot.streams.filter(({ client, job }) => isScheduled(client, job)),
  };
}

const severities: readonly Problem['severity'][] = ['bad', 'warn', 'note'];
const bySeverity = (one: Problem, other: Problem) =>
  severities.indexOf(one.severity) - severities.indexOf(other.severity);

/** A job that fails has told why already, and one that is paused that it is. */
function problemsOfStale(stale: readonly StaleJob[], { now }: Snapshot): Problem[] {
  return stale
    .filter(({ because }) => because === 'not run')
    .map(({ client, job, lastSuccessAt, since }) => ({
      severity: 'bad',
      subject: `${client} ${job}`,
      text: `late for ${formatSpan((now.getTime() - since.getTime()) / 1_000)}; it last got done ${lastSuccessAt === null ? 'never' : lastSuccessAt.toISOString()}`,
      remedy: `is a worker running, and what holds the client? Ask for a run with: fulfilment-sync run ${job} --client ${client}`,
    }));
}
