import { pullShipments, shipments } from '../src/sync/streams/shipments.ts';
import { pullJob } from './pull-job.ts';

export const pullShipmentsJob = pullJob(shipments, pullShipments);
