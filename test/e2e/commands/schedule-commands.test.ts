import { expect, test } from 'vitest';
import { useDatabase } from '../../helpers/database.ts';
import { useProcesses, workerEnv } from '../../helpers/processes/processes.ts';
import { runCommand } from '../../helpers/processes/run-command.ts';
import { waitFor } from '../../helpers/wait.ts';

const database = useDatabase();
const processes = useProcesses();

const run = (env: Record<string, string>, ...args: string[]) =>
  runCommand(args, { ...env, LOG_LEVEL: 'silent' });

test('pause, run, status and resume say what they do and what to do next', async () => {
  const sandbox = await processes.sandbox();
  const env = workerEnv(database.url, sandbox);
  expect(await run(env, 'pause', 'pull-everything')).toMatchObject({
    code: 2,
    output: expect.stringContaining('There is no job pull-everything; known are pull-shipments'),
  });
  expect(await run(env, 'pause', 'pull-shipments', '--client', 'nobody')).toMatchObject({
    code: 2,
  });
  expect(await run(env, 'pause', 'pull-shipments')).toEqual({
    code: 0,
    output:
      'pull-shipments of every client: paused; a run under way finishes. Resume with: fulfilment-sync resume pull-shipments',
  });
  expect(await run(env, 'run', 'pull-shipments')).toMatchObject({
    code: 0,
    output: expect.stringMatching(
      /^default pull-shipments: skipped \(paused since .*; resume with: fulfilment-sync resume pull-shipments; next due once/,
    ),
  });
  expect((await run(env, 'status')).output).toMatch(
    /every client pull-shipments: paused since .* by .*; resume with: fulfilment-sync resume pull-shipments/,
  );
  expect(await run(env, 'resume', 'pull-shipments', '--client', 'default')).toMatchObject({
    code: 1,
  });
  expect(await run(env, 'resume', 'pull-shipments')).toMatchObject({
    code: 0,
    output: expect.stringContaining('resumed'),
  });
  expect((await run(env, 'run', 'pull-shipments')).output).toContain('done: ');
  expect((await run(env, 'run', 'track-trace')).output).toContain('done: ');
  expect(await run(env, 'run', 'track-trace')).toMatchObject({
    code: 0,
    output: expect.stringMatching(
      /skipped \(track-trace may be requested only once an hour; next due 20/,
    ),
  });
  expect((await run(env, 'status')).output).toMatch(
    /default track-trace: may be asked again in (59|60)m/,
  );
});

test('a running worker parks a client whose base URL changes, until it is accepted', async () => {
  const [here, there] = [await processes.sandbox(), await processes.sandbox()];
  await here.seed(20);
  await there.seed(50);
  const env = workerEnv(database.url, there, { SCHEDULE_PULL_SHIPMENTS: '1s' });
  expect((await run(workerEnv(database.url, here), 'run', 'pull-shipments')).code).toBe(0);
  const worker = processes.cli(['worker'], env);
  expect(JSON.parse(await worker.line('client_parked'))).toMatchObject({
    level: 'error',
    client: 'default',
  });
  await waitFor('a pull that would have been due for ten seconds', async () => {
    const overdue = `select 1 from sync.jobs where job = 'pull-shipments' and next_at < now() - interval '10 seconds'`;
    return (await database.query(overdue)).length === 1;
  });
  const shipments = () => database.count('fulfilment.shipments');
  expect(await shipments()).toBe(20);
  // The worker may ask whether the service is up. It asked for nothing else.
  expect((await there.requests()).filter(({ path }) => path !== '/status/get')).toEqual([]);
  expect((await run(env, 'client', 'accept-identity', 'default')).code).toBe(0);
  await waitFor('what the other service holds', async () => (await shipments()) === 50);
  await worker.line('client_unparked');
});
