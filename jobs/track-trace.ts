import { defineJob } from '../src/queue/define-job.ts';
import { pullTrackTrace } from '../src/sync/pulls/track-trace.ts';
import type { PullContext } from '../src/sync/run/pull-context.ts';

/**
 * The job that reads where packages are. It runs at most once an hour, even if scheduled more often (docs/interface.md,
 * 5.1 Values).
 */
export const trackTraceJob = defineJob<PullContext>({
  name: 'track-trace',
  queue: 'poll',
  retries: true,
  ownPace: true,
  run: pullTrackTrace,
});
