import { streams } from '../src/pull/streams/all-streams.ts';
import type { Jobs } from '../src/schedule/job.ts';
import { defineBackfillJob } from './backfill.ts';
import { pruneJob } from './prune.ts';
import { pullInboundPackingSlipsJob } from './pull-inbound-packing-slips.ts';
import { pullInboundsJob } from './pull-inbounds.ts';
import { pullOrdersJob } from './pull-orders.ts';
import { pullParcelsJob } from './pull-parcels.ts';
import { pullReturnItemsJob } from './pull-return-items.ts';
import { pullShipmentsJob } from './pull-shipments.ts';
import { pullStockJob } from './pull-stock.ts';
import { defineReconcileJob } from './reconcile.ts';
import { refreshSettingsJob } from './refresh-settings.ts';
import { trackTraceJob } from './track-trace.ts';

/** All jobs by name. */
export const jobs: Jobs = {
  'pull-shipments': pullShipmentsJob,
  'pull-return-items': pullReturnItemsJob,
  'pull-inbounds': pullInboundsJob,
  'pull-inbound-packing-slips': pullInboundPackingSlipsJob,
  'pull-orders': pullOrdersJob,
  'refresh-settings': refreshSettingsJob,
  'track-trace': trackTraceJob,
  'pull-parcels': pullParcelsJob,
  'pull-stock': pullStockJob,
  reconcile: defineReconcileJob(streams),
  backfill: defineBackfillJob(streams),
  prune: pruneJob,
};
