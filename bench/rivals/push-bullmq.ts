/** One BullMQ job for each order, in Redis. */
import { Queue, Worker } from 'bullmq';
import { Redis } from 'ioredis';
import { allPlaced, numbers, placed, post, told } from './post.ts';

const connection = new Redis(told.redis, { maxRetriesPerRequest: null });
const name = `orders-${process.pid}`;
const queue = new Queue(name, { connection });
await queue.addBulk(numbers.map((number) => ({ name: 'order', data: { number }, opts: { attempts: 10 } })));
new Worker(name, async ({ data }) => post(data.number), { connection, concurrency: told.concurrency }).on(
  'completed',
  placed,
);
await allPlaced;
process.exit(0);
