import { defineJob } from '../src/queue/define-job.ts';
import { pullStock } from '../src/sync/pulls/stock.ts';
import type { PullContext } from '../src/sync/run/pull-context.ts';

/** Stock of the articles in stock_watch, one request for each; off unless it is scheduled. */
export const pullStockJob = defineJob<PullContext>({
  name: 'pull-stock',
  queue: 'bulk',
  retries: true,
  run: pullStock,
});
