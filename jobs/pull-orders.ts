import { orders, pullOrders } from '../src/sync/streams/orders.ts';
import { pullJob } from './pull-job.ts';

export const pullOrdersJob = pullJob(orders, pullOrders);
