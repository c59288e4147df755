import type { Config } from '../../../config/env.ts';
import type { JobName } from '../../../config/jobs.ts';
import type { Logger } from '../../core/logger.ts';
import type { Database } from '../../db/pool.ts';
import type { Overview } from '../../operate/health/overview.ts';
import type { Metrics } from '../../operate/metrics/metrics.ts';
import type { TaskQueue } from '../../schedule/backend.ts';
import type { RunReport, Work } from '../../schedule/run.ts';

/** What the pages use of the worker in this process. */
export interface RunningWorker {
  /** Returns the milliseconds since the last complete sweep; undefined before the first. */
  readonly sinceLastSweepMs: () => number | undefined;
  /** Returns the milliseconds since a sweep last began; undefined before the first. */
  readonly sinceSweepBegunMs: () => number | undefined;
  /** The queue that keeps time, by its name. */
  readonly queues: ReadonlyMap<string, TaskQueue>;
  /** Starts the due runs of a job at once, as far as places are free. */
  readonly startDue: (job: JobName) => void;
  /** Makes a run of any work for a client, by its key. */
  readonly runFor: (client: string, work: Work) => Promise<RunReport>;
}

/** The parts that the admin server uses. */
export interface AdminDeps {
  readonly config: Config;
  /**
   * A separate pool, so that pages never wait for the connections of runs, and runs never for those
   * of pages.
   */
  readonly db: Database;
  readonly log: Logger;
  readonly metrics: Metrics;
  readonly readOverview: () => Promise<Overview>;
  /** Returns the worker; null until it has started. */
  readonly daemon: () => RunningWorker | null;
}

/** The parts that pages are made from. */
export type PageDeps = Pick<AdminDeps, 'config' | 'db' | 'readOverview' | 'daemon'>;
