import { defineJob } from '../src/queue/define-job.ts';
import type { PullContext } from '../src/sync/pull-context.ts';
import { pullTrackTrace } from '../src/sync/track-trace.ts';

/** Where packages are; at most once an hour (interface.md, Limits), whatever the schedule says. */
export const trackTraceJob = defineJob<PullContext>({
  name: 'track-trace',
  queue: 'poll',
  retries: true,
  ownPace: true,
  run: pullTrackTrace,
});
