import { returnItems } from '../src/sync/streams/return-items.ts';
import { pullJob } from './job.ts';

export const pullReturnItemsJob = pullJob(returnItems);
