/** One graphile-worker job for each order. */
import { Logger, makeWorkerUtils, run } from 'graphile-worker';
import { allPlaced, numbers, placed, post, told } from './post.ts';

const connectionString = told.database;
const logger = new Logger(() => () => undefined);
const utils = await makeWorkerUtils({ connectionString, logger });
await utils.migrate();
await utils.addJobs(numbers.map((number) => ({ identifier: 'order', payload: { number } })));
await utils.release();
await run({
  connectionString,
  concurrency: told.concurrency,
  logger,
  noHandleSignals: true,
  taskList: {
    order: async (payload) => {
      await post((payload as { number: string }).number);
      placed();
    },
  },
});
await allPlaced;
process.exit(0);
