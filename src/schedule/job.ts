import type { JobName } from '../../config/jobs.ts';
import type { Work } from './run.ts';

/**
 * A pool of places for runs: `poll` for data that must be fresh, `bulk` for long work that must not
 * delay the polls.
 */
export type Pool = 'poll' | 'bulk';

/**
 * A job: its pool, and what a run for one client does. The job exists only if jobs/registry.ts
 * lists it.
 */
export interface Job extends Pick<Work, 'run' | 'stream' | 'isLocal' | 'operation'> {
  readonly pool: Pool;
  /**
   * True if its runs decide themselves when the next one is due. A shorter schedule does not make
   * it due earlier.
   */
  readonly ownPace?: boolean;
}

/** All jobs by name. */
export type Jobs = Readonly<Record<JobName, Job>>;
