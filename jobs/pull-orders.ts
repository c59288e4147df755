import { orders } from '../src/sync/streams/orders.ts';
import { pullJob } from './job.ts';

export const pullOrdersJob = pullJob(orders);
