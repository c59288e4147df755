import { definePullJob } from '../src/queue/define-job.ts';
import { pollStream } from '../src/sync/paging/poll.ts';
import { inbounds } from '../src/sync/streams/inbounds.ts';

export const pullInboundsJob = definePullJob('pull-inbounds', inbounds, pollStream);
