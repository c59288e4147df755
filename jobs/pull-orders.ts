import { pullJob } from '../src/queue/pull-job.ts';
import { pollStream } from '../src/sync/pulls/poll.ts';
import { orders, pullOrders } from '../src/sync/streams/orders.ts';

export const pullOrdersJob = pullJob('pull-orders', orders, pollStream(pullOrders));
