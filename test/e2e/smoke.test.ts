/** What must work before each commit, with processes. test/e2e/worker has the whole list. */
import { describe, expect, test } from 'vitest';
import { useDatabase } from '../helpers/database.ts';
import { expireLeases } from '../helpers/leases.ts';
import { compareWithSandbox } from '../helpers/oracle.ts';
import { insertOrders } from '../helpers/order-payload.ts';
import { useProcesses, workerEnv } from '../helpers/processes/processes.ts';
import { useRedis } from '../helpers/redis.ts';
import { waitFor } from '../helpers/wait.ts';

const database = useDatabase();
const processes = useProcesses();
const redis = useRedis();

const doubled = `(select from fulfilment.changes where entity = 'shipments' group by id having count(*) > 1) as doubled`;
const isDone = async (job: string) =>
  (await database.count(`sync.jobs where job = '${job}' and last_outcome = 'done'`)) === 1;

describe.each(['postgres', 'redis'] as const)('a worker with its queue in %s', (kind) => {
  test.skipIf(kind === 'redis' && !redis.available)(
    'runs its jobs, sends an order once, answers its probes, and ends on SIGTERM',
    async () => {
      const sandbox = await processes.sandbox();
      await sandbox.seed(20);
      const env = { SCHEDULE_PULL_SHIPMENTS: '1s', SCHEDULE_PULL_ORDERS: '1s' };
      const queue: Record<string, string> = kind === 'redis' ? { REDIS_URL: redis.url } : {};
      const worker = processes.cli(
        ['worker'],
        workerEnv(database.url, sandbox, { ...env, ...queue }),
      );
      expect(JSON.parse(await worker.line('worker_started'))).toMatchObject({ queue: kind });
      await insertOrders(database, 1, 1);
      await waitFor(
        'the order',
        async () => (await database.count(`fulfilment.outbox where status = 'done'`)) === 1,
      );
      await sandbox.advance(86_400);
      await waitFor(
        'tables that equal the service',
        async () =>
          (await compareWithSandbox(database.db, sandbox.url, ['orders', 'shipments'])).length ===
          0,
      );
      const posts = (await sandbox.requestsTo('/v3/orders')).filter(
        ({ method }) => method === 'POST',
      );
      expect(posts).toHaveLength(1);

      const { port } = JSON.parse(await worker.line('admin_listening')) as { port: number };
      const ask = (path: string) => fetch(`http://127.0.0.1:${port}/${path}`);
      for (const probe of ['livez', 'readyz']) expect((await ask(probe)).status).toBe(200);
      const metrics = (await (await ask('metrics')).text()).split('\n');
      const counts = [
        'queue_jobs{queue="schedules",state="completed"}',
        'runs_total{client="default",job="pull-shipments",outcome="done"}',
        'requests_total{client="default",status="2xx"}',
      ].map((name) => metrics.find((line) => line.startsWith(`fulfilment_${name} `)));
      expect(counts.map((line) => Number(line?.split(' ').at(-1)) > 0)).toEqual([true, true, true]);

      worker.kill('SIGTERM');
      expect(await worker.ended).toEqual({ code: 0, signal: null });
      expect(await database.count('sync.leases where expires_at is not null')).toBe(0);
      expect(await database.count(`sync.runs where status = 'running'`)).toBe(0);
      expect(worker.output).not.toMatch(/"level":"(error|fatal)"/);
    },
  );
});

test('after kill -9 in the middle of a pull, the next worker continues at the stored page', async () => {
  const sandbox = await processes.sandbox();
  await sandbox.seed(1_000);
  // The first worker never gets beyond the third page.
  await sandbox.faults(
    { operation: 'v3.shipments.list', count: 3, effect: { delayMs: 1 } },
    { operation: 'v3.shipments.list', effect: { delayMs: 60_000 } },
  );
  // Orders would give the shipments their numbers, which is a second change of each.
  const env = workerEnv(database.url, sandbox, {
    HTTP_TIMEOUT_MS: '120000',
    SCHEDULE_PULL_ORDERS: 'off',
  });
  const first = processes.cli(['worker'], env);
  await waitFor('some pages', async () => (await database.count('fulfilment.shipments')) >= 200);
  first.kill('SIGKILL');
  await first.ended;
  await sandbox.clearFaults();
  await expireLeases(database);
  const [stored] = await database.query<{ query: string }>(
    `select query from sync.cursors where stream = 'shipments' and pass = 'new'`,
  );
  const place = await sandbox.lastPlace();
  processes.cli(['worker'], env);
  await waitFor('the rest', () => isDone('pull-shipments'));
  expect(await database.count('fulfilment.shipments')).toBe(1_000);
  expect(await database.count(doubled)).toBe(0);
  expect(await compareWithSandbox(database.db, sandbox.url, ['shipments'])).toEqual([]);
  const runs = await database.query(
    `select status from sync.runs where job = 'pull-shipments' order by id`,
  );
  expect(runs).toEqual([{ status: 'abandoned' }, { status: 'done' }]);
  const pages = (await sandbox.requestsTo('/v3/shipments', place)).filter(
    ({ query }) => !query.includes('filter'),
  );
  expect(pages[0]?.query).toBe(stored?.query);
});
