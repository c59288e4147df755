import { definePullJob } from '../src/queue/define-job.ts';
import { pollStream } from '../src/sync/paging/poll.ts';
import { shipments } from '../src/sync/streams/shipments.ts';

export const pullShipmentsJob = definePullJob('pull-shipments', shipments, pollStream);
