import type { Config } from '../../../config/env.ts';
import type { Database } from '../../erp/connection/pool.ts';
import type { Logger } from '../logging/logger.ts';
import type { WorkMetrics } from '../metrics/work-metrics.ts';
import type { Daemon } from '../worker/daemon.ts';

/** What the admin server works with. */
export interface AdminDeps {
  readonly config: Config;
  /** Uses a pool of its own, so requests for pages never wait for the connections of runs, nor the reverse. */
  readonly db: Database;
  readonly log: Logger;
  readonly metrics: WorkMetrics;
  /** Null until the worker has started. */
  readonly daemon: () => Daemon | null;
}
