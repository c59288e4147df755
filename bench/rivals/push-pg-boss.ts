/** One pg-boss job for each order. */
import { PgBoss } from 'pg-boss';
import { allPlaced, numbers, placed, post, told } from './post.ts';

const boss = new PgBoss({ connectionString: told.database, max: 12 });
boss.on('error', (error) => process.stderr.write(`${error}\n`));
await boss.start();
const name = `orders-${process.pid}`;
await boss.createQueue(name, { retryLimit: 10 });
await boss.insert(
  name,
  numbers.map((number) => ({ data: { number } })),
);
// As many workers as requests at a time, each with ten jobs at once; while batches are full none of them waits.
const options = {
  localConcurrency: told.concurrency,
  batchSize: 10,
  pollingIntervalSeconds: 0.5,
  burstWhenBatchFull: true,
};
await boss.work<{ number: string }>(name, options, async (jobs) => {
  for (const { data } of jobs) {
    await post(data.number);
    placed();
  }
});
await allPlaced;
process.exit(0);
