/**
 * From the insert of an outbox row to its POST received by the service, at 50 rows a second for 60 seconds, on both queue
 * backends; and how many orders a second leave when many wait. `npm run --silent bench:outbox-latency`
 */
import { setTimeout as wait } from 'node:timers/promises';
import pg from 'pg';
import { jobNames, scheduleVariable } from '../config/schedules.ts';
import { migrateDatabase } from '../src/app/commands/migrate.ts';
import { startEmbeddedPostgres } from '../src/app/demo/embedded-postgres.ts';
import { createLogger } from '../src/app/log.ts';
import { orderPayload } from '../test/helpers/order-payload.ts';
import { SandboxControl } from '../test/helpers/sandbox-control.ts';
import { start } from './product.ts';

const rate = 50;
const seconds = 60;

async function measure(queue: string, more: Record<string, string>): Promise<void> {
  const postgres = await startEmbeddedPostgres();
  await migrateDatabase(postgres.url, createLogger({ level: 'silent', pretty: false }));
  const sandbox = await start(['sandbox', '--port', '0', '--speed', '0', '--orders-per-day', '0'], {}, 'Sandbox at ');
  const control = new SandboxControl(new URL(/Sandbox at (\S+)/.exec(sandbox.line)?.[1] ?? ''));
  const env = {
    DATABASE_URL: postgres.url,
    WAREHOUSE_BASE_URL: control.url.href,
    WAREHOUSE_USERNAME: 'default',
    WAREHOUSE_PASSWORD: 'default',
    ADMIN_PORT: '0',
    LOG_PRETTY: 'false',
    ...Object.fromEntries(jobNames.map((job) => [scheduleVariable(job), 'off'])),
    ...more,
  };
  const worker = await start(['worker'], env, 'worker_started');
  worker.child.stdout?.resume();
  const client = new pg.Client(postgres.url);
  await client.connect();
  const insert = (number: string) =>
    client.query("insert into fulfilment.outbox (kind, reference, payload) values ('order.create', $1, $2)", [
      number,
      JSON.stringify(orderPayload(number)),
    ]);
  const posts = async () => (await control.requests()).filter(({ operation }) => operation === 'v3.orders.create');
  try {
    for (let index = 0; index < 20; index++) await insert(`WARM-${index}`);
    while ((await posts()).length < 20) await wait(50);
    const insertedAtMs: number[] = [];
    const beganAtMs = performance.now();
    for (let index = 0; index < rate * seconds; index++) {
      const dueMs = beganAtMs + (index * 1_000) / rate;
      if (dueMs > performance.now()) await wait(dueMs - performance.now());
      // Before the statement is sent: the commit comes later, so the latency is rather less.
      insertedAtMs.push(Date.now());
      await insert(`SO-${index}`);
    }
    while ((await posts()).length < 20 + rate * seconds) await wait(50);
    const received = (await posts()).slice(20).map(({ atMs }) => atMs);
    const latencies = received.map((atMs, index) => atMs - (insertedAtMs[index] ?? 0)).sort((a, b) => a - b);
    const at = (share: number) => latencies[Math.floor((latencies.length - 1) * share)];
    process.stdout.write(
      `queue in ${queue}: ${latencies.length} rows at ${rate}/s: p50 ${at(0.5)} ms, p90 ${at(0.9)} ms, p99 ${at(0.99)} ms, most ${at(1)} ms\n`,
    );
    const before = (await posts()).length;
    await client.query(
      `insert into fulfilment.outbox (kind, reference, payload)
       select 'order.create', 'B-' || n, jsonb_set($1::jsonb, '{externalOrderNumber}', to_jsonb('B-' || n)) from generate_series(1, 3000) n`,
      [JSON.stringify(orderPayload('?'))],
    );
    const startedAtMs = performance.now();
    const left = async () =>
      (await client.query("select 1 from fulfilment.outbox where status <> 'done' limit 1")).rows.length > 0;
    while (await left()) await wait(50);
    const perSecond = Math.round(3_000 / ((performance.now() - startedAtMs) / 1_000));
    process.stdout.write(
      `queue in ${queue}: 3,000 at once: ${perSecond} orders a second, ${(await posts()).length - before} requests\n`,
    );
  } finally {
    await client.end();
    worker.child.kill('SIGTERM');
    sandbox.child.kill('SIGTERM');
    await postgres.stop();
  }
}

await measure('Postgres', {});
const redisUrl = process.argv[2];
if (redisUrl === undefined)
  process.stdout.write('For the other backend: npm run --silent bench:outbox-latency -- redis://…\n');
else await measure('Redis', { REDIS_URL: redisUrl });
