import { pullJob } from '../src/queue/pull-job.ts';
import { pollStream } from '../src/sync/pulls/poll.ts';
import { pullShipments, shipments } from '../src/sync/streams/shipments.ts';

export const pullShipmentsJob = pullJob('pull-shipments', shipments, pollStream(pullShipments));
