import { defineJob } from '../src/queue/define-job.ts';
import { prune } from '../src/sync/pulls/prune.ts';
import type { PullContext } from '../src/sync/run/pull-context.ts';

/** Lets go of what is older than RETENTION_DAYS, of every client. */
export const pruneJob = defineJob<PullContext>({
  name: 'prune',
  queue: 'bulk',
  retries: true,
  isLocal: true,
  run: prune,
});
