/**
 * From the insert of an outbox row to its POST received by the service, at 1, 50 and 500 rows a second, with the queue in
 * Postgres and in Redis: `npm run --silent bench:latency -- [SECONDS]`.
 */
import { setTimeout as wait } from 'node:timers/promises';
import pg from 'pg';
import { orderPayload } from '../test/helpers/order-payload.ts';
import { startRedis } from '../test/helpers/processes/redis-server.ts';
import { waitFor } from '../test/helpers/wait.ts';
import { keep, quantile, round, say } from './stand/measure.ts';
import { end, openStand, type Stand, schedulesOff } from './stand/stand.ts';

const seconds = Number(process.argv[2] ?? 30);
const rates = [1, 50, 500];
let batch = 0;

/** Milliseconds of each row. Begins before the insert is sent: the commit comes later, so it is rather less. */
async function latencies(
  stand: Stand,
  client: pg.Client,
  rate: number,
): Promise<{ readonly times: readonly number[]; readonly achieved: number }> {
  const insert = (number: string) =>
    client.query("insert into fulfilment.outbox (kind, reference, payload) values ('order.create', $1, $2)", [
      number,
      JSON.stringify(orderPayload(number)),
    ]);
  const place = await stand.sandbox.lastPlace();
  const count = Math.max(10, rate * seconds);
  const insertedAtMs: number[] = [];
  const prefix = `L${++batch}`;
  const beganAtMs = performance.now();
  for (let index = 0; index < count; index++) {
    const dueMs = beganAtMs + (index * 1_000) / rate;
    if (dueMs > performance.now()) await wait(dueMs - performance.now());
    insertedAtMs.push(Date.now());
    await insert(`${prefix}-${index}`);
  }
  const achieved = (count * 1_000) / (performance.now() - beganAtMs);
  const posts = async () =>
    (await stand.sandbox.requests(place)).filter(({ operation }) => operation === 'v3.orders.create');
  await waitFor('all to be received', async () => (await posts()).length >= count, 120_000);
  // Held against the inserts in their order; the log of the service does not say whose a request is, and a few overtake.
  return { times: (await posts()).map(({ atMs }, index) => atMs - (insertedAtMs[index] ?? 0)), achieved };
}

async function measure(queue: string, more: Record<string, string>): Promise<object[]> {
  const stand = await openStand();
  const client = new pg.Client(stand.url);
  const found: object[] = [];
  try {
    await client.connect();
    const worker = await stand.startWorker({ ...schedulesOff, ...more });
    await latencies(stand, client, 50);
    for (const rate of rates) {
      const { times, achieved } = await latencies(stand, client, rate);
      const at = (share: number) => Math.round(quantile(times, share));
      const figures = {
        queue,
        rate,
        achieved: round(achieved),
        rows: times.length,
        p50: at(0.5),
        p90: at(0.9),
        p99: at(0.99),
        most: at(1),
      };
      say(JSON.stringify(figures));
      found.push(figures);
    }
    await end(worker);
  } finally {
    await client.end();
    await stand.stop();
  }
  return found;
}

const redis = await startRedis(['--maxmemory-policy', 'noeviction']);
const inPostgres = await measure('Postgres', {});
if (redis === null) say('No redis-server on the PATH: the queue in Redis is not measured.');
const inRedis = redis === null ? [] : await measure('Redis', { REDIS_URL: redis.url });
await redis?.stop();
keep('latency', { seconds, found: [...inPostgres, ...inRedis] });
