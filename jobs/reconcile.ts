import { reconcileAll } from '../src/pull/rescan.ts';
import type { Stream } from '../src/pull/stream.ts';
import type { Job } from '../src/schedule/job.ts';

/** Defines the job that reconciles the streams, one after the other. */
export const defineReconcileJob = (streams: readonly Stream[]): Job => ({
  pool: 'bulk',
  run: (context) => reconcileAll(context, streams),
});
