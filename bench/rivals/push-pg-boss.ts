/** Sends orders with one pg-boss job per order. */
import { PgBoss } from 'pg-boss';
import { allPlaced, countPlaced, numbers, post, rivalOptions } from './post.ts';

const boss = new PgBoss({ connectionString: rivalOptions.database, max: 12 });
boss.on('error', (error) => process.stderr.write(`${error}\n`));
await boss.start();
const name = `orders-${process.pid}`;
await boss.createQueue(name, { retryLimit: 10 });
await boss.insert(
  name,
  numbers.map((number) => ({ data: { number } })),
);
// One worker per concurrent request, each with batches of ten jobs. Workers do not wait while
// batches are full.
const options = {
  localConcurrency: rivalOptions.concurrency,
  batchSize: 10,
  pollingIntervalSeconds: 0.5,
  burstWhenBatchFull: true,
};
await boss.work<{ number: string }>(name, options, async (jobs) => {
  for (const { data } of jobs) {
    await post(data.number);
    countPlaced();
  }
});
await allPlaced;
process.exit(0);
