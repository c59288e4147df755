import { expect, test } from 'vitest';
import { useDatabase } from '../../helpers/database.ts';
import { insertOrders } from '../../helpers/order-payload.ts';
import { useProcesses, workerEnv } from '../../helpers/processes/processes.ts';
import { waitFor } from '../../helpers/wait.ts';

const database = useDatabase();
const processes = useProcesses();
const perSecond = 20;

test('two workers and a command keep REQUESTS_PER_SECOND together, also after a kill -9', async () => {
  const sandbox = await processes.sandbox();
  await insertOrders(database, 1, 400);
  const env = workerEnv(database.url, sandbox, { REQUESTS_PER_SECOND: String(perSecond) });
  const startedSecond = Math.floor(Date.now() / 1_000);
  const workers = [processes.cli(['worker'], env), processes.cli(['worker'], env)] as const;
  // A process connects to the budgets with its first request.
  const sessions = `select from pg_stat_activity where application_name = 'fulfilment-sync budgets'`;
  await waitFor('both workers to send', async () => (await database.query(sessions)).length === 2);
  const run = processes.cli(['run', 'refresh-settings'], env);
  expect(await run.ended).toMatchObject({ code: 0 });
  const before = await sandbox.lastPlace();
  await waitFor(
    'three seconds of requests',
    async () => (await sandbox.requests(before)).length >= 3 * perSecond,
  );
  workers[0].kill('SIGKILL');
  const killed = await sandbox.lastPlace();
  const since = async (place: number) => (await sandbox.requests(place)).map(({ atMs }) => atMs);
  await waitFor('more requests than a second allows, of the worker that is left', async () => {
    return (await since(killed)).length > perSecond;
  });
  const times = await since(0);
  // A request is released in its second, and may arrive later: only the number since the start is
  // exact.
  const seconds = Math.floor(Math.max(...times) / 1_000) - startedSecond + 1;
  expect(times.length).toBeLessThanOrEqual(perSecond * seconds);
});
