import { defineJob } from '../src/queue/define-job.ts';
import type { PullContext } from '../src/sync/pull.ts';
import { pullShipments } from '../src/sync/streams/shipments.ts';

export const pullShipmentsJob = defineJob<PullContext>({ name: 'pull-shipments', queue: 'poll', run: pullShipments });
