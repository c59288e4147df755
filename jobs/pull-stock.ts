import { pullStock } from '../src/pull/stock.ts';
import type { Job } from '../src/schedule/job.ts';

/**
 * The job that reads the stock of each article in stock_watch, with one request per article. It is
 * off by default.
 */
export const pullStockJob: Job = {
  pool: 'bulk',
  operation: { name: 'oldest.stock.bulk', namesResource: false },
  run: pullStock,
};
