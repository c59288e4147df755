/** Sends orders with one graphile-worker job per order. */
import { Logger, makeWorkerUtils, run } from 'graphile-worker';
import { allPlaced, countPlaced, numbers, post, rivalOptions } from './post.ts';

const connectionString = rivalOptions.database;
const logger = new Logger(() => () => undefined);
const utils = await makeWorkerUtils({ connectionString, logger });
await utils.migrate();
await utils.addJobs(numbers.map((number) => ({ identifier: 'order', payload: { number } })));
await utils.release();
await run({
  connectionString,
  concurrency: rivalOptions.concurrency,
  logger,
  noHandleSignals: true,
  taskList: {
    order: async (payload) => {
      await post((payload as { number: string }).number);
      countPlaced();
    },
  },
});
await allPlaced;
process.exit(0);
