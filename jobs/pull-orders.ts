import { orders } from '../src/pull/streams/orders.ts';
import { pullJob } from './job.ts';

export const pullOrdersJob = pullJob(orders);
