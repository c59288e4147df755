import { prune } from '../src/operate/prune.ts';
import type { Job } from '../src/schedule/job.ts';

/** The job that deletes data older than RETENTION_DAYS, for every client. */
export const pruneJob: Job = {
  pool: 'bulk',
  isLocal: true,
  run: prune,
};
