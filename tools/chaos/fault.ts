import type { Stage } from './stage.ts';

/** One way in which things break. A strike begins it, lets it last for a random time, and ends it. */
export interface Fault {
  readonly name: string;
  /** What it is, for a person who reads the table. */
  readonly about: string;
  readonly strike: (stage: Stage) => Promise<void>;
  /** Where the queue has to be for it to matter; else seeds take turns. */
  readonly queue?: 'redis';
  /** Whether the database has to lie on a disk that can be filled. */
  readonly onSmallDisk?: boolean;
}
