import { inboundPackingSlips } from '../src/sync/streams/inbound-packing-slips.ts';
import { pullJob } from './job.ts';

export const pullInboundPackingSlipsJob = pullJob(inboundPackingSlips);
