/** Sends orders with one BullMQ job per order, in Redis. */
import { Queue, Worker } from 'bullmq';
import { Redis } from 'ioredis';
import { allPlaced, countPlaced, numbers, post, rivalOptions } from './post.ts';

const connection = new Redis(rivalOptions.redis, { maxRetriesPerRequest: null });
const name = `orders-${process.pid}`;
const queue = new Queue(name, { connection });
await queue.addBulk(
  numbers.map((number) => ({ name: 'order', data: { number }, opts: { attempts: 10 } })),
);
new Worker(name, async ({ data }) => post(data.number), {
  connection,
  concurrency: rivalOptions.concurrency,
}).on('completed', countPlaced);
await allPlaced;
process.exit(0);
