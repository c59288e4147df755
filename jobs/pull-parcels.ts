import { pullParcels } from '../src/sync/pulls/parcels.ts';
import type { Job } from './job.ts';

/** The job that looks up the packages of shipped shipments, one request per shipment. */
export const pullParcelsJob: Job = {
  queue: 'bulk',
  savesProgress: true,
  run: pullParcels,
};
