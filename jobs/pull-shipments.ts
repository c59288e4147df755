import { shipments } from '../src/sync/streams/shipments.ts';
import { pullJob } from './job.ts';

export const pullShipmentsJob = pullJob(shipments);
