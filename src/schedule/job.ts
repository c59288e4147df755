import type { JobName } from '../../config/jobs.ts';
import type { MainOperation } from '../service/health/run-health.ts';
import type { RunContext } from './run.ts';

/**
 * A pool of places for runs: `poll` for data that must be fresh, `bulk` for long work that must not
 * delay the polls.
 */
export type Pool = 'poll' | 'bulk';

/**
 * A job: its pool, and what a run for one client does. The job exists only if jobs/registry.ts
 * lists it.
 */
export interface Job {
  readonly pool: Pool;
  readonly run: (context: RunContext) => Promise<void>;
  /** The stream that the job polls. */
  readonly stream?: { readonly name: string };
  /** True if its runs send nothing to the service, so that a client hold does not stop them. */
  readonly isLocal?: boolean;
  readonly operation?: MainOperation;
  /**
   * True if its runs decide themselves when the next one is due. A shorter schedule does not make
   * it due earlier.
   */
  readonly ownPace?: boolean;
}

/** All jobs by name. */
export type Jobs = Readonly<Record<JobName, Job>>;
