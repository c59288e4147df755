import pg from 'pg';
import { afterEach, describe, expect, test } from 'vitest';
import { useDatabase } from '../../helpers/database.ts';
import { compareWithSandbox } from '../../helpers/oracle.ts';
import { insertOrders } from '../../helpers/order-payload.ts';
import { hasPgbouncer, type Pgbouncer, startPgbouncer } from '../../helpers/processes/pgbouncer.ts';
import { useProcesses, workerEnv } from '../../helpers/processes/processes.ts';
import { runCommand } from '../../helpers/processes/run-command.ts';
import { useServices } from '../../helpers/processes/service.ts';
import { waitFor } from '../../helpers/wait.ts';

const database = useDatabase();
const processes = useProcesses();
const services = useServices();
const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
});

async function openPooler(mode: 'session' | 'transaction'): Promise<Pgbouncer> {
  const pooler = await startPgbouncer(database.url, mode);
  closers.push(pooler.stop);
  return pooler;
}

const countDone = async () =>
  (await database.query(`select from fulfilment.outbox where status = 'done'`)).length;
/** Counts the sessions of Postgres that a worker has, of those that it opens for its work. */
const countConnections = async () =>
  (
    await database.query(`
    select from pg_stat_activity
    where datname = current_database() and application_name ~ '^fulfilment-sync (main|leases|push|claims|listen|queue|feed|admin|alerts)$'`)
  ).length;

describe.skipIf(!hasPgbouncer)('with pgbouncer', () => {
  test.each(['session', 'transaction'] as const)(
    'a worker pulls, pushes and posts events in %s mode, also after pgbouncer was killed',
    async (mode) => {
      const pooler = await openPooler(mode);
      const sandbox = await processes.sandbox();
      await sandbox.advance(3 * 86_400);
      let posts = 0;
      const receiver = await services.start((_request, response) => {
        posts++;
        response.writeHead(204).end();
      });
      const env = {
        ...workerEnv(pooler.url, sandbox),
        ...{
          EVENT_WEBHOOK_URL: receiver.url.href,
          SCHEDULE_PULL_SHIPMENTS: '1s',
          SCHEDULE_PULL_ORDERS: '1s',
          REQUESTS_PER_SECOND: '1000',
        },
        ...(mode === 'transaction' ? { DATABASE_DIRECT_URL: database.url } : {}),
      };
      expect((await runCommand(['migrate'], env)).code).toBe(0);
      const worker = processes.cli(['worker'], env);
      await worker.line('worker_started');
      await insertOrders(database, 1, 50);
      await waitFor('the first orders', async () => (await countDone()) === 50);
      await pooler.restart();
      await insertOrders(database, 51, 60);
      await waitFor('the other orders', async () => (await countDone()) === 60);
      await waitFor('an event of each order', () => posts >= 60);
      await waitFor(
        'the tables',
        async () =>
          (await compareWithSandbox(database.db, sandbox.url, ['shipments', 'orders'])).length ===
          0,
      );
      const { output, code } = await runCommand(['doctor'], env);
      expect(output).toMatch(`DATABASE_URL leads to a pooler in ${mode} mode`);
      expect(code, output).toBe(0);
      // No setting of ours is left in a session that pgbouncer gives to others.
      if (mode === 'session') return;
      const client = new pg.Client(pooler.url);
      await client.connect();
      closers.push(() => client.end());
      expect((await client.query('show search_path')).rows).toEqual([
        { search_path: '"$user", public' },
      ]);
    },
  );

  test('a worker refuses a pooler that shares sessions, with what to do', async () => {
    const pooler = await openPooler('transaction');
    const env = workerEnv(pooler.url, await processes.sandbox());
    const worker = processes.cli(['worker'], env);
    expect((await worker.ended).code).toBe(1);
    expect(worker.output).toMatch(
      /shares sessions.*set DATABASE_DIRECT_URL to the URL of Postgres itself/,
    );
    const { code, output } = await runCommand(['doctor'], env);
    expect(output).toMatch(/DATABASE_URL leads to a connection pooler that shares sessions/);
    expect(code).toBe(1);
  });
});

test('a worker opens at most 16 connections', async () => {
  const sandbox = await processes.sandbox();
  await sandbox.advance(3 * 86_400);
  const worker = processes.cli(['worker'], workerEnv(database.url, sandbox));
  await worker.line('worker_started');
  await insertOrders(database, 1, 500);
  let most = 0;
  await waitFor('all orders', async () => {
    most = Math.max(most, await countConnections());
    return (await countDone()) === 500;
  });
  expect(most).toBeGreaterThan(8);
  expect(most).toBeLessThanOrEqual(16);
});
