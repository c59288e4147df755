import { expect, test } from 'vitest';
import { useDatabase } from '../../helpers/database.ts';
import { useProcesses, workerEnv } from '../../helpers/processes/processes.ts';
import { runCommand } from '../../helpers/processes/run-command.ts';

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
