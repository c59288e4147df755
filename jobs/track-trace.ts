import { defineJob } from '../src/queue/define-job.ts';
import { pullTrackTrace } from '../src/sync/pulls/track-trace.ts';
import type { PullContext } from '../src/sync/run/pull-context.ts';

/** Where packages are; at most once an hour (interface.md, Limits), whatever the schedule says. */
export const trackTraceJob = defineJob<PullContext>({
  name: 'track-trace',
  queue: 'poll',
  retries: true,
  ownPace: true,
  run: pullTrackTrace,
});
