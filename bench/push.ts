/**
 * Measures orders per second to the sandbox, and compares that with a bare loop around undici and three job queues that
 * send the same requests: `npm run --silent bench:push -- [--rounds 5] [--cells LATENCY:AT_A_TIME:ORDERS,…]`. Each
 * sends the same number of orders per round. The time is from the first to the last request that the service received.
 */
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { startRedis } from '../test/helpers/processes/redis-server.ts';
import { measureByTurns, median, medianRatio, printLine, round, saveResults } from './stand/measure.ts';
import { computeRate, pushOrders } from './stand/push-orders.ts';
import { collectOutput, endProcess, openStand, type Stand, schedulesOff } from './stand/stand.ts';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    // 15,000 to 20,000 orders in five rounds; fewer if they are sent one by one.
    cells: { type: 'string', default: '0:1:1000,0:8:4000,0:64:4000,20:1:100,20:8:3000,20:64:4000' },
    name: { type: 'string', default: 'push' },
  },
});
const rounds = Number(values.rounds);

/** One measurement: its latency, its number of requests at the same time, and its orders per round. */
interface Cell {
  readonly latencyMs: number;
  readonly concurrency: number;
  readonly orders: number;
}
const cells = values.cells.split(',').map((text): Cell => {
  const [latencyMs = 0, concurrency = 1, orders = 0] = text.split(':').map(Number);
  return { latencyMs, concurrency, orders };
});
const rivals = ['bare', 'bullmq', 'pg-boss', 'graphile-worker'];
let batch = 0;

async function measureRival(
  stand: Stand,
  name: string,
  { concurrency, orders }: Cell,
  redisUrl: string,
): Promise<number> {
  const place = await stand.sandbox.lastPlace();
  const program = fileURLToPath(new URL(`./rivals/push-${name}.ts`, import.meta.url));
  const args = [stand.sandbox.url.href, concurrency, `R${++batch}`, orders, stand.url, redisUrl].map(String);
  await collectOutput(stand.start([program, ...args]), name);
  return computeRate(stand, place, orders);
}

/** Measures one cell on a new Postgres and a new sandbox, so that earlier cells do not affect it. */
async function measure(cell: Cell, redisUrl: string) {
  const { latencyMs, concurrency, orders } = cell;
  const stand = await openStand();
  if (latencyMs > 0) await stand.sandbox.faults({ operation: 'v3.orders.create', effect: { delayMs: latencyMs } });
  const worker = await stand.startWorker({ ...schedulesOff, PUSH_CONCURRENCY: String(concurrency), LOG_LEVEL: 'info' });
  try {
    const figures = await measureByTurns(rounds, {
      product: () => pushOrders(stand, orders),
      ...Object.fromEntries(rivals.map((name) => [name, () => measureRival(stand, name, cell, redisUrl)])),
    });
    const perSecond = Object.fromEntries(Object.entries(figures).map(([name, rates]) => [name, round(median(rates))]));
    const ratios = Object.fromEntries(
      rivals.map((name) => [`product : ${name}`, round(medianRatio(figures, 'product', name))]),
    );
    printLine(
      `${latencyMs} ms, ${concurrency} at a time: ${JSON.stringify(perSecond)} orders/s; ${JSON.stringify(ratios)}`,
    );
    return { ...cell, perSecond, ratios, rounds: figures };
  } finally {
    await endProcess(worker);
    await stand.stop();
  }
}

const redis = await startRedis(['--maxmemory-policy', 'noeviction']);
if (redis === null) throw new Error('BullMQ needs a Redis: put redis-server on the PATH');
try {
  const found: object[] = [];
  for (const cell of cells) found.push(await measure(cell, redis.url));
  saveResults(values.name, { rounds, found });
} finally {
  await redis.stop();
}
