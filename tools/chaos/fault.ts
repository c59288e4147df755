import type { Stage } from './stage.ts';

/** A kind of failure. A strike begins it, lets it last for a random time, and ends it. */
export interface Fault {
  readonly name: string;
  /** What happens, for the table of results. */
  readonly about: string;
  readonly strike: (stage: Stage) => Promise<void>;
  /** The queue that the fault needs; without it, seeds take turns. */
  readonly queue?: 'redis';
  /** True if the database must be on a disk that can be filled. */
  readonly onSmallDisk?: boolean;
}
