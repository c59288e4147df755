import { definePullJob } from '../src/queue/define-job.ts';
import { pollStream } from '../src/sync/pulls/poll.ts';
import { pullShipments, shipments } from '../src/sync/streams/shipments.ts';

export const pullShipmentsJob = definePullJob('pull-shipments', shipments, pollStream(pullShipments));
