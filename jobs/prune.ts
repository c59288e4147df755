import { defineJob } from '../src/queue/define-job.ts';
import { prune } from '../src/sync/pulls/prune.ts';
import type { PullContext } from '../src/sync/run/pull-context.ts';

/** The job that deletes data older than RETENTION_DAYS, for every client. */
export const pruneJob = defineJob<PullContext>({
  name: 'prune',
  queue: 'bulk',
  retries: true,
  isLocal: true,
  run: prune,
});
