import { pullParcels } from '../src/pull/parcels.ts';
import type { Job } from '../src/schedule/job.ts';

/** The job that looks up the packages of shipped shipments, one request per shipment. */
export const pullParcelsJob: Job = {
  pool: 'bulk',
  operation: { name: 'v2.shipment.search', namesResource: true },
  run: pullParcels,
};
