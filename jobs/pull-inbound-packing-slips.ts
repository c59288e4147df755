import { inboundPackingSlips } from '../src/pull/streams/inbound-packing-slips.ts';
import { pullJob } from './job.ts';

export const pullInboundPackingSlipsJob = pullJob(inboundPackingSlips);
