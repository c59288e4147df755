import { definePullJob } from '../src/queue/define-job.ts';
import { pollStream } from '../src/sync/pulls/poll.ts';
import { inboundPackingSlips, pullInboundPackingSlips } from '../src/sync/streams/inbound-packing-slips.ts';

export const pullInboundPackingSlipsJob = definePullJob(
  'pull-inbound-packing-slips',
  inboundPackingSlips,
  pollStream(pullInboundPackingSlips),
);
