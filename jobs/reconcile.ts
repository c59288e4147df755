import { defineJob } from '../src/queue/define-job.ts';
import type { Stream } from '../src/sync/reading/stream.ts';
import { reconcileAll } from '../src/sync/rescan/rescan-jobs.ts';
import type { PullContext } from '../src/sync/run/pull-context.ts';

/** Defines the job that reconciles the streams, one after the other. */
export const defineReconcileJob = (streams: readonly Stream[]) =>
  defineJob<PullContext>({
    name: 'reconcile',
    queue: 'bulk',
    retries: true,
    run: (context) => reconcileAll(context, streams),
  });
