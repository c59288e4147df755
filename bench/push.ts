/**
 * Orders a second to the sandbox, beside a bare loop around undici and three job queues that send the same requests:
 * `npm run --silent bench:push -- [--orders 600] [--rounds 5] [--concurrency 1,8,64] [--latency 0,20]`.
 * Each sends as many orders; what counts is when the first and the last request reached the service.
 */
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { startRedis } from '../test/helpers/redis-server.ts';
import { byTurns, keep, median, ratio, round, say } from './measure.ts';
import { pushOrders, rateAfter } from './push-orders.ts';
import { end, openStand, outputOf, type Stand, schedulesOff } from './stand.ts';

const { values } = parseArgs({
  options: {
    orders: { type: 'string', default: '600' },
    rounds: { type: 'string', default: '5' },
    concurrency: { type: 'string', default: '1,8,64' },
    latency: { type: 'string', default: '0,20' },
    name: { type: 'string', default: 'push' },
  },
});
const orders = Number(values.orders);
const rounds = Number(values.rounds);
const numbersOf = (text: string) => text.split(',').map(Number);
const rivals = ['bare', 'bullmq', 'pg-boss', 'graphile-worker'];
let batch = 0;

async function rival(stand: Stand, name: string, concurrency: number, redisUrl: string): Promise<number> {
  const place = await stand.sandbox.lastPlace();
  const program = fileURLToPath(new URL(`./rivals/push-${name}.ts`, import.meta.url));
  const args = [stand.sandbox.url.href, concurrency, `R${++batch}`, orders, stand.url, redisUrl].map(String);
  await outputOf(stand.start([program, ...args]), name);
  return rateAfter(stand, place, orders);
}

async function measure(stand: Stand, latency: number, concurrency: number, redisUrl: string) {
  if (latency > 0) await stand.sandbox.faults({ operation: 'v3.orders.create', effect: { delayMs: latency } });
  const worker = await stand.startWorker({ ...schedulesOff, PUSH_CONCURRENCY: String(concurrency), LOG_LEVEL: 'info' });
  try {
    const figures = await byTurns(rounds, {
      product: () => pushOrders(stand, orders),
      ...Object.fromEntries(rivals.map((name) => [name, () => rival(stand, name, concurrency, redisUrl)])),
    });
    const perSecond = Object.fromEntries(Object.entries(figures).map(([name, rates]) => [name, round(median(rates))]));
    const ratios = Object.fromEntries(
      rivals.map((name) => [`product : ${name}`, round(ratio(figures, 'product', name))]),
    );
    say(`${latency} ms, ${concurrency} at a time: ${JSON.stringify(perSecond)} orders/s; ${JSON.stringify(ratios)}`);
    return { latencyMs: latency, concurrency, perSecond, ratios, rounds: figures };
  } finally {
    await end(worker);
    await stand.sandbox.clearFaults();
  }
}

const redis = await startRedis(['--maxmemory-policy', 'noeviction']);
if (redis === null) throw new Error('BullMQ needs a Redis: put redis-server on the PATH');
const stand = await openStand();
try {
  const found: object[] = [];
  for (const latency of numbersOf(values.latency))
    for (const concurrency of numbersOf(values.concurrency))
      found.push(await measure(stand, latency, concurrency, redis.url));
  keep(values.name, { orders, rounds, found });
} finally {
  await stand.stop();
  await redis.stop();
}
