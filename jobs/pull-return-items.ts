import { defineJob } from '../src/queue/define-job.ts';
import type { PullContext } from '../src/sync/pull.ts';
import { pullReturnItems } from '../src/sync/streams/return-items.ts';

export const pullReturnItemsJob = defineJob<PullContext>({
  name: 'pull-return-items',
  queue: 'poll',
  run: pullReturnItems,
});
