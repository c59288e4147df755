import { defineJob } from '../src/queue/define-job.ts';
import { pullStock } from '../src/sync/pulls/stock.ts';
import type { PullContext } from '../src/sync/run/pull-context.ts';

/** The job that reads the stock of each article in stock_watch, with one request per article. It is off by default. */
export const pullStockJob = defineJob<PullContext>({
  name: 'pull-stock',
  queue: 'bulk',
  retries: true,
  run: pullStock,
});
