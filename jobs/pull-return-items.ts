import { pullJob } from '../src/queue/pull-job.ts';
import { pollStream } from '../src/sync/pulls/poll.ts';
import { pullReturnItems, returnItems } from '../src/sync/streams/return-items.ts';

export const pullReturnItemsJob = pullJob('pull-return-items', returnItems, pollStream(pullReturnItems));
