import { inboundPackingSlips, pullInboundPackingSlips } from '../src/sync/streams/inbound-packing-slips.ts';
import { pullJob } from './pull-job.ts';

export const pullInboundPackingSlipsJob = pullJob(inboundPackingSlips, pullInboundPackingSlips);
