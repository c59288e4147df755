import { definePullJob } from '../src/queue/define-job.ts';
import { pollStream } from '../src/sync/paging/poll.ts';
import { inboundPackingSlips } from '../src/sync/streams/inbound-packing-slips.ts';

export const pullInboundPackingSlipsJob = definePullJob('pull-inbound-packing-slips', inboundPackingSlips, pollStream);
