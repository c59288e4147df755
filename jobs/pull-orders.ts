import { definePullJob } from '../src/queue/define-job.ts';
import { pollStream } from '../src/sync/pulls/poll.ts';
import { orders, pullOrders } from '../src/sync/streams/orders.ts';

export const pullOrdersJob = definePullJob('pull-orders', orders, pollStream(pullOrders));
