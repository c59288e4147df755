import { definePullJob } from '../src/queue/define-job.ts';
import { pollStream } from '../src/sync/paging/poll.ts';
import { orders } from '../src/sync/streams/orders.ts';

export const pullOrdersJob = definePullJob('pull-orders', orders, pollStream);
