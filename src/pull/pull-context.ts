import type { RunContext } from '../schedule/run.ts';
import type { Comparison } from './sql/mirror-tables.ts';
import type { Rescan } from './sql/rescans.ts';

/** The context of a run that reads a stream. */
export interface PullContext extends RunContext {
  /** Polls compare `raw` with the tables, rescans every column. */
  readonly compare: Comparison;
  /** Receives the progress of a rescan. Polls do not call it. */
  readonly onProgress?: (rescan: Rescan) => void;
}

/** Returns the context of a poll. */
export const toPullContext = (context: RunContext): PullContext => ({ ...context, compare: 'raw' });
