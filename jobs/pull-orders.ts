import { defineJob } from '../src/queue/define-job.ts';
import type { PullContext } from '../src/sync/pull.ts';
import { pullOrders } from '../src/sync/streams/orders.ts';

export const pullOrdersJob = defineJob<PullContext>({ name: 'pull-orders', queue: 'poll', run: pullOrders });
