import { pullJob } from '../src/queue/pull-job.ts';
import { pollStream } from '../src/sync/pulls/poll.ts';
import { inbounds, pullInbounds } from '../src/sync/streams/inbounds.ts';

export const pullInboundsJob = pullJob('pull-inbounds', inbounds, pollStream(pullInbounds));
