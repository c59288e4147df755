/** What must work before each commit, with processes. test/e2e/worker has the whole list. */
import { expect, test } from 'vitest';
import { compareWithSandbox } from '../../src/cli/demo/oracle.ts';
import { useDatabase } from '../helpers/database.ts';
import { expireLeases } from '../helpers/leases.ts';
import { orderPayload } from '../helpers/order-payload.ts';
import { useProcesses, workerEnv } from '../helpers/processes/processes.ts';
import { waitFor } from '../helpers/wait.ts';

const database = useDatabase();
const processes = useProcesses();

const doubled = `(select from fulfilment.changes where entity = 'shipments' group by id having count(*) > 1) as doubled`;
const isDone = async (job: string) =>
  (await database.count(`sync.jobs where job = '${job}' and last_outcome = 'done'`)) === 1;

test('a worker reads a page, sends an order once, and ends on SIGTERM with nothing under way', async () => {
  const sandbox = await processes.sandbox();
  await sandbox.seed(20);
  const env = { SCHEDULE_PULL_SHIPMENTS: '1s', SCHEDULE_PULL_ORDERS: '1s' };
  const worker = processes.cli(['worker'], workerEnv(database.url, sandbox, env));
  await worker.line('worker_started');
  await database.query(
    `insert into fulfilment.outbox (kind, reference, payload) values ('order.create', 'SO-1', $1)`,
    [JSON.stringify(orderPayload('SO-1'))],
  );
  await waitFor(
    'the order',
    async () => (await database.count(`fulfilment.outbox where status = 'done'`)) === 1,
  );
  await waitFor(
    'tables that equal the service',
    async () =>
      (await compareWithSandbox(database.db, sandbox.url, ['orders', 'shipments'])).length === 0,
  );
  const posts = (await sandbox.requestsTo('/v3/orders')).filter(({ method }) => method === 'POST');
  expect(posts).toHaveLength(1);
  worker.kill('SIGTERM');
  expect(await worker.ended).toEqual({ code: 0, signal: null });
  expect(await database.count('sync.leases where expires_at is not null')).toBe(0);
  expect(await database.count(`sync.runs where status = 'running'`)).toBe(0);
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
