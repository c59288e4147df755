import { shipments } from '../src/pull/streams/shipments.ts';
import { pullJob } from './job.ts';

export const pullShipmentsJob = pullJob(shipments);
