import { defineJob } from '../src/queue/define-job.ts';
import type { Stream } from '../src/sync/reading/stream.ts';
import { backfillRequested } from '../src/sync/rescan/rescan-jobs.ts';
import type { PullContext } from '../src/sync/run/pull-context.ts';

/** Defines the job that runs the backfills requested with --background. */
export const defineBackfillJob = (streams: readonly Stream[]) =>
  defineJob<PullContext>({
    name: 'backfill',
    queue: 'bulk',
    retries: true,
    run: (context) => backfillRequested(context, streams),
  });
