/**
 * Measures the time from the insert of an outbox row until the service receives its POST, at 1, 50
 * and 500 rows per second, with the queue in Postgres and in Redis, and with commits that take 2 ms
 * more, as with a synchronous standby in another zone: `npm run --silent bench:latency --
 * [SECONDS]`.
 */
import { setTimeout as wait } from 'node:timers/promises';
import pg from 'pg';
import { orderPayload } from '../test/helpers/order-payload.ts';
import { startRedis } from '../test/helpers/processes/redis-server.ts';
import { waitFor } from '../test/helpers/wait.ts';
import { printLine, quantile, round, saveResults } from './stand/measure.ts';
import { endProcess, openStand, type Stand, schedulesOff } from './stand/stand.ts';

const seconds = Number(process.argv[2] ?? 30);
const rates = [1, 50, 500];
let batch = 0;

/**
 * Measures the milliseconds of each row, from before its insert is sent. The time from the commit
 * is a little shorter.
 */
async function measureLatencies(
  stand: Stand,
  client: pg.Client,
  rate: number,
): Promise<{ readonly times: readonly number[]; readonly achieved: number }> {
  const insert = (number: string) =>
    client.query(
      "insert into fulfilment.outbox (kind, reference, payload) values ('order.create', $1, $2)",
      [number, JSON.stringify(orderPayload(number))],
    );
  const place = await stand.sandbox.lastPlace();
  const count = Math.max(10, rate * seconds);
  const insertedAtMs: number[] = [];
  const prefix = `L${++batch}`;
  const beganAtMs = performance.now();
  for (let index = 0; index < count; index++) {
    const dueMs = beganAtMs + (index * 1_000) / rate;
    const leftMs = dueMs - performance.now();
    if (leftMs > 0) await wait(leftMs);
    insertedAtMs.push(Date.now());
    await insert(`${prefix}-${index}`);
  }
  const achieved = (count * 1_000) / (performance.now() - beganAtMs);
  const posts = async () =>
    (await stand.sandbox.requests(place)).filter(
      ({ operation }) => operation === 'v3.orders.create',
    );
  await waitFor('all to be received', async () => (await posts()).length >= count, 120_000);
  // Compares inserts and requests by their order: the log of the service does not name the row. A
  // few requests overtake.
  return {
    times: (await posts()).map(({ atMs }, index) => atMs - (insertedAtMs[index] ?? 0)),
    achieved,
  };
}

async function measure(
  lane: string,
  settings: Readonly<Record<string, string>>,
  more: Readonly<Record<string, string>> = {},
): Promise<object[]> {
  const stand = await openStand(undefined, undefined, settings);
  const client = new pg.Client(stand.url);
  const found: object[] = [];
  try {
    await client.connect();
    const worker = await stand.startWorker({ ...schedulesOff, ...more });
    await measureLatencies(stand, client, 50);
    for (const rate of rates) {
      const { times, achieved } = await measureLatencies(stand, client, rate);
      const at = (share: number) => Math.round(quantile(times, share));
      const figures = {
        lane,
        rate,
        achieved: round(achieved),
        rows: times.length,
        p50: at(0.5),
        p90: at(0.9),
        p99: at(0.99),
        most: at(1),
      };
      printLine(JSON.stringify(figures));
      found.push(figures);
    }
    await endProcess(worker);
  } finally {
    await client.end();
    await stand.stop();
  }
  return found;
}

const redis = await startRedis(['--maxmemory-policy', 'noeviction']);
const inPostgres = await measure('queue in Postgres', {});
const slowCommits = await measure('commits of 2 ms', {
  commit_delay: '2000',
  commit_siblings: '0',
});
if (redis === null) printLine('No redis-server on the PATH: the queue in Redis is not measured.');
const inRedis = redis === null ? [] : await measure('queue in Redis', {}, { REDIS_URL: redis.url });
await redis?.stop();
saveResults('latency', { seconds, found: [...inPostgres, ...slowCommits, ...inRedis] });
