import { returnItems } from '../src/pull/streams/return-items.ts';
import { pullJob } from './job.ts';

export const pullReturnItemsJob = pullJob(returnItems);
