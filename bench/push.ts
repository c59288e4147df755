/**
 * Measures orders per second to the sandbox, and compares that with a bare loop around undici and
 * job queues that send the same requests: `npm run --silent bench:push -- [--rounds 5] [--cells
 * LATENCY:AT_A_TIME:ORDERS,…] [--rivals NAME,…]`. `pg-boss-storing` also stores what the answers
 * show, as the product does. Each sends the same number of orders per round. The time is from the
 * first to the last request that the service received.
 */
import { parseArgs } from 'node:util';
import { startRedis } from '../test/helpers/processes/redis-server.ts';
import { median, medianRatio, printLine, round, saveResults } from './stand/measure.ts';
import { type Cell, measureCell } from './stand/push-cell.ts';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    // 15,000 to 20,000 orders in five rounds; fewer if they are sent one by one.
    cells: { type: 'string', default: '0:1:1000,0:8:4000,0:64:4000,20:1:100,20:8:3000,20:64:4000' },
    rivals: { type: 'string', default: 'bare,bullmq,pg-boss,pg-boss-storing,graphile-worker' },
    name: { type: 'string', default: 'push' },
  },
});
const rounds = Number(values.rounds);

const cells = values.cells.split(',').map((text): Cell => {
  const [latencyMs = 0, concurrency = 1, orders = 0] = text.split(':').map(Number);
  return { latencyMs, concurrency, orders };
});
const rivals = values.rivals.split(',');

async function measure(cell: Cell, redisUrl: string) {
  const figures = await measureCell(cell, { rounds, rivals, redisUrl });
  const perSecond = Object.fromEntries(
    Object.entries(figures).map(([name, rates]) => [name, round(median(rates))]),
  );
  const ratios = Object.fromEntries(
    rivals.map((name) => [`product : ${name}`, round(medianRatio(figures, 'product', name))]),
  );
  printLine(
    `${cell.latencyMs} ms, ${cell.concurrency} at a time: ${JSON.stringify(perSecond)} orders/s; ${JSON.stringify(ratios)}`,
  );
  return { ...cell, perSecond, ratios, rounds: figures };
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
