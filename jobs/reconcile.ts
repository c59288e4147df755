import { defineJob } from '../src/queue/define-job.ts';
import type { Stream } from '../src/sync/reading/stream.ts';
import { reconcileAll } from '../src/sync/rescan/rescan-jobs.ts';
import type { PullContext } from '../src/sync/run/pull-context.ts';

/** Proves every stream, one after the other. */
export const reconcileJob = (streams: readonly Stream[]) =>
  defineJob<PullContext>({
    name: 'reconcile',
    queue: 'bulk',
    retries: true,
    run: (context) => reconcileAll(context, streams),
  });
