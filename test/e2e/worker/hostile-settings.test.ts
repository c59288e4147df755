import { expect, test } from 'vitest';
import { compareWithSandbox } from '../../../src/cli/demo/oracle.ts';
import { useDatabase } from '../../helpers/database.ts';
import { setHostile } from '../../helpers/hostile-settings.ts';
import { insertOrders } from '../../helpers/order-payload.ts';
import { useProcesses, workerEnv } from '../../helpers/processes/processes.ts';
import { runCommand } from '../../helpers/processes/run-command.ts';
import { waitFor } from '../../helpers/wait.ts';

const database = useDatabase();
const processes = useProcesses();

test('a worker and the commands do their work whatever the database and its role have set', async () => {
  await setHostile(database);
  await database.query(
    `do $$ begin execute format('alter database %I set lock_timeout = 1', current_database()); end $$`,
  );
  const sandbox = await processes.sandbox();
  await sandbox.advance(3 * 86_400);
  const env = workerEnv(database.url, sandbox, {
    ...{
      SCHEDULE_PULL_SHIPMENTS: '1s',
      SCHEDULE_PULL_ORDERS: '1s',
      SCHEDULE_PULL_RETURN_ITEMS: '1s',
    },
    ...{ SCHEDULE_PULL_INBOUNDS: '1s', REQUESTS_PER_SECOND: '1000' },
  });
  expect((await runCommand(['migrate'], env)).code).toBe(0);
  const worker = processes.cli(['worker'], env);
  await worker.line('worker_started');
  await insertOrders(database, 1, 20);
  await waitFor(
    'the orders',
    async () => (await database.count(`fulfilment.outbox where status = 'done'`)) === 20,
  );
  await waitFor(
    'the tables',
    async () =>
      (
        await compareWithSandbox(database.db, sandbox.url, [
          'shipments',
          'orders',
          'return-items',
          'inbounds',
        ])
      ).length === 0,
  );
  for (const command of ['doctor', 'status']) {
    const { code, output } = await runCommand([command], env);
    expect([code, output]).toEqual([0, output]);
  }
  for (const command of [
    ['reconcile', 'orders'],
    ['run', 'prune'],
    ['outbox', 'list'],
  ])
    expect([command, (await runCommand(command, env)).code]).toEqual([command, 0]);
  worker.kill('SIGTERM');
  expect(await worker.ended).toEqual({ code: 0, signal: null });
  expect(
    await database.query(
      `select job, error from sync.runs where status in ('failed', 'abandoned')`,
    ),
  ).toEqual([]);
  expect(await database.count('fulfilment.outbox where attempts <> 1')).toBe(0);
});
