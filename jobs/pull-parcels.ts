import { defineJob } from '../src/queue/define-job.ts';
import { pullParcels } from '../src/sync/pulls/parcels.ts';
import type { PullContext } from '../src/sync/run/pull-context.ts';

/** The job that looks up the packages of shipped shipments, one request per shipment. */
export const pullParcelsJob = defineJob<PullContext>({
  name: 'pull-parcels',
  queue: 'bulk',
  retries: true,
  savesProgress: true,
  run: pullParcels,
});
