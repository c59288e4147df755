import { definePullJob } from '../src/queue/define-job.ts';
import { pollStream } from '../src/sync/pulls/poll.ts';
import { inbounds, pullInbounds } from '../src/sync/streams/inbounds.ts';

export const pullInboundsJob = definePullJob('pull-inbounds', inbounds, pollStream(pullInbounds));
