import { backfillRequested } from '../src/pull/rescan.ts';
import type { Stream } from '../src/pull/stream.ts';
import type { Job } from '../src/schedule/job.ts';

/** Defines the job that runs the backfills requested with --background. */
export const defineBackfillJob = (streams: readonly Stream[]): Job => ({
  pool: 'bulk',
  run: (context) => backfillRequested(context, streams),
});
