import type { JobName } from '../config/schedules.ts';
import type { JobDefinition } from '../src/queue/define-job.ts';
import type { PullContext } from '../src/sync/pull.ts';
import { pullInboundsJob } from './pull-inbounds.ts';
import { pullOrdersJob } from './pull-orders.ts';
import { pullReturnItemsJob } from './pull-return-items.ts';
import { pullShipmentsJob } from './pull-shipments.ts';

/** Every job, once. */
export const jobs: Readonly<Record<JobName, JobDefinition<PullContext>>> = {
  'pull-shipments': pullShipmentsJob,
  'pull-return-items': pullReturnItemsJob,
  'pull-inbounds': pullInboundsJob,
  'pull-orders': pullOrdersJob,
};
