import { defineJob } from '../src/queue/define-job.ts';
import type { PullContext } from '../src/sync/pull.ts';
import { pullInbounds } from '../src/sync/streams/inbounds.ts';

export const pullInboundsJob = defineJob<PullContext>({ name: 'pull-inbounds', queue: 'poll', run: pullInbounds });
