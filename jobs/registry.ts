import type { JobName } from '../config/jobs.ts';
import type { JobDefinition } from '../src/queue/define-job.ts';
import type { PullContext } from '../src/sync/run/pull-context.ts';
import { backfillJob } from './backfill.ts';
import { pruneJob } from './prune.ts';
import { pullInboundPackingSlipsJob } from './pull-inbound-packing-slips.ts';
import { pullInboundsJob } from './pull-inbounds.ts';
import { pullOrdersJob } from './pull-orders.ts';
import { pullReturnItemsJob } from './pull-return-items.ts';
import { pullShipmentsJob } from './pull-shipments.ts';
import { pullStockJob } from './pull-stock.ts';
import { reconcileJob } from './reconcile.ts';
import { refreshSettingsJob } from './refresh-settings.ts';
import { trackTraceJob } from './track-trace.ts';

const pulls = {
  'pull-shipments': pullShipmentsJob,
  'pull-return-items': pullReturnItemsJob,
  'pull-inbounds': pullInboundsJob,
  'pull-inbound-packing-slips': pullInboundPackingSlipsJob,
  'pull-orders': pullOrdersJob,
};

/** Every stream, once. */
export const streams = Object.values(pulls).map(({ stream }) => stream);

/** Every job, once. */
export const jobs: Readonly<Record<JobName, JobDefinition<PullContext>>> = {
  ...pulls,
  'refresh-settings': refreshSettingsJob,
  'track-trace': trackTraceJob,
  'pull-stock': pullStockJob,
  reconcile: reconcileJob(streams),
  backfill: backfillJob(streams),
  prune: pruneJob,
};
