import type { Stream } from '../src/sync/reading/stream.ts';
import { backfillRequested } from '../src/sync/rescan/rescan-jobs.ts';
import type { Job } from './job.ts';

/** Defines the job that runs the backfills requested with --background. */
export const defineBackfillJob = (streams: readonly Stream[]): Job => ({
  queue: 'bulk',
  run: (context) => backfillRequested(context, streams),
});
