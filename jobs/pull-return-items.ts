import { definePullJob } from '../src/queue/define-job.ts';
import { pollStream } from '../src/sync/paging/poll.ts';
import { returnItems } from '../src/sync/streams/return-items.ts';

export const pullReturnItemsJob = definePullJob('pull-return-items', returnItems, pollStream);
