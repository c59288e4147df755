import { expect, inject, test } from 'vitest';
import { TcpProxy } from '../../../tools/chaos/proxy.ts';
import { useDatabase } from '../../helpers/database.ts';
import { insertOrders } from '../../helpers/order-payload.ts';
import type { CliProcess } from '../../helpers/processes/cli-process.ts';
import { schedulesOff, useProcesses, workerEnv } from '../../helpers/processes/processes.ts';
import { startRedis } from '../../helpers/processes/redis-server.ts';
import { waitFor } from '../../helpers/wait.ts';

const database = useDatabase();
const processes = useProcesses();

const insertOrder = () => insertOrders(database, 1, 1);

/** Waits for a worker that was asked to stop: after 20 s it would have forced its end. */
async function expectStopped(worker: CliProcess): Promise<void> {
  expect((await worker.ended).code, worker.output.slice(-4000)).toBe(0);
  expect(worker.output).toContain('worker_stopped');
  expect(worker.output).not.toMatch(/stop_forced|uncaught/);
}

const readStatus = async () =>
  (await database.query<{ status: string }>('select status from fulfilment.outbox'))[0]?.status;

test('a worker that is asked to stop waits for its push; asked twice, it ends at once', async () => {
  const sandbox = await processes.sandbox();
  await sandbox.faults({ operation: 'v3.orders.create', count: 1, effect: { delayMs: 3_000 } });
  const first = processes.cli(['worker'], workerEnv(database.url, sandbox));
  await first.line('worker_started');
  await insertOrder();
  const posted = async () => (await sandbox.count('v3.orders.create')) > 0;
  await waitFor('the order under way', posted);
  first.kill('SIGTERM');
  expect(await first.ended).toEqual({ code: 0, signal: null });
  expect(await readStatus()).toBe('done');

  await sandbox.faults({ operation: 'v3.orders.create', effect: { noAnswer: true } });
  const second = processes.cli(['worker'], workerEnv(database.url, sandbox));
  await second.line('worker_started');
  await database.query(`delete from fulfilment.outbox`);
  const place = await sandbox.lastPlace();
  await insertOrder();
  await waitFor(
    'an order that is not answered',
    async () => (await sandbox.count('v3.orders.create', place)) > 0,
  );
  second.kill('SIGTERM');
  await second.line('worker_stopping');
  second.kill('SIGTERM');
  expect(await second.ended).toEqual({ code: 1, signal: null });
  // The worker did not wait for the answer, and its time limit did not end it.
  expect(second.output).not.toMatch(/worker_stopped|stop_forced/);
});

test('asked to stop while no answer comes, a worker ends in time and leaves nothing half done', async () => {
  const sandbox = await processes.sandbox();
  await sandbox.faults(
    { operation: 'v3.orders.create', effect: { noAnswer: true } },
    { operation: 'v3.shipments.list', effect: { noAnswer: true } },
  );
  const worker = processes.cli(['worker'], workerEnv(database.url, sandbox));
  await worker.line('worker_started');
  await insertOrder();
  for (const operation of ['v3.orders.create', 'v3.shipments.list'])
    await waitFor(operation, async () => (await sandbox.count(operation)) > 0);
  worker.kill('SIGTERM');
  await expectStopped(worker);
  expect(await readStatus()).toBe('unknown');
  expect(await database.count('sync.leases where expires_at is not null')).toBe(0);
  expect(await database.count(`sync.runs where status = 'running'`)).toBe(0);
});

test.skipIf(!inject('redisAvailable'))(
  'asked to stop while Redis is away, a worker does not wait for Redis',
  async () => {
    const redis = await startRedis(['--maxmemory-policy', 'noeviction']);
    const sandbox = await processes.sandbox();
    await sandbox.faults({ operation: 'v3.shipments.list', effect: { noAnswer: true } });
    const worker = processes.cli(
      ['worker'],
      workerEnv(database.url, sandbox, { REDIS_URL: redis?.url ?? '' }),
    );
    try {
      await worker.line('worker_started');
      const hangs = async () => (await sandbox.count('v3.shipments.list')) > 0;
      await waitFor('a run under way', hangs);
    } finally {
      await redis?.stop();
    }
    await worker.line('redis_connection_lost');
    worker.kill('SIGTERM');
    await expectStopped(worker);
  },
);

test('asked to stop with connections that no longer answer, a worker ends in time', async () => {
  const sandbox = await processes.sandbox();
  const proxy = await TcpProxy.start(new URL(database.url));
  try {
    // A run that is under way would have to end first.
    const once = { ...schedulesOff, SCHEDULE_PULL_ORDERS: '1h' };
    const worker = processes.cli(['worker'], workerEnv(proxy.url.href, sandbox, once));
    await worker.line('worker_started');
    const readOpen = () =>
      database.query(`
        select 1 from sync.jobs where job = 'pull-orders' and last_success_at is null
        union all select 1 from sync.leases where expires_at is not null`);
    await waitFor('the end of the first run', async () => (await readOpen()).length === 0);
    // The present connections swallow everything. New ones work.
    proxy.set({ kind: 'half-open' });
    proxy.set({ kind: 'fair' });
    proxy.forgetLost();
    worker.kill('SIGTERM');
    await expectStopped(worker);
  } finally {
    await proxy.close();
  }
});

test('a worker logs an uncaught error and ends with exit code 1', async () => {
  const sandbox = await processes.sandbox();
  const thrown = "process.on('SIGUSR2', () => { throw new Error('nobody caught this'); })";
  const worker = processes.cli(
    ['worker'],
    workerEnv(database.url, sandbox, {
      NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(thrown)}`,
    }),
  );
  await worker.line('worker_started');
  worker.kill('SIGUSR2');
  expect((await worker.ended).code).toBe(1);
  expect(JSON.parse(await worker.line('"uncaught"'))).toMatchObject({
    level: 'fatal',
    error: 'nobody caught this',
  });
});
