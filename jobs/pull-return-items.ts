import { pullReturnItems, returnItems } from '../src/sync/streams/return-items.ts';
import { pullJob } from './pull-job.ts';

export const pullReturnItemsJob = pullJob(returnItems, pullReturnItems);
