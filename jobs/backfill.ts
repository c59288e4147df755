import { defineJob } from '../src/queue/define-job.ts';
import type { Stream } from '../src/sync/reading/stream.ts';
import { backfillRequested } from '../src/sync/rescan/rescan-jobs.ts';
import type { PullContext } from '../src/sync/run/pull-context.ts';

/** Takes up the backfills that were asked for with --background. */
export const backfillJob = (streams: readonly Stream[]) =>
  defineJob<PullContext>({
    name: 'backfill',
    queue: 'bulk',
    retries: true,
    run: (context) => backfillRequested(context, streams),
  });
