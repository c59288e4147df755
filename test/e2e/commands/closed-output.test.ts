import { expect, test } from 'vitest';
import { useDatabase } from '../../helpers/database.ts';
import { useProcesses, workerEnv } from '../../helpers/processes/processes.ts';

const database = useDatabase();
const processes = useProcesses();

/**
 * Starts a command whose standard output nobody reads, as behind `| head -1` after the first line.
 */
async function startUnread(...args: string[]) {
  const cli = processes.cli(args, workerEnv(database.url, await processes.sandbox()));
  cli.child.stdout?.destroy();
  return cli;
}

test('a command finishes its work although nobody reads its output any more', async () => {
  const run = await startUnread('run', 'pull-shipments');
  expect(await run.ended).toEqual({ code: 0, signal: null });
  expect(run.output).toBe('');
  const ended = await database.query(
    `select last_outcome from sync.jobs where job = 'pull-shipments'`,
  );
  expect(ended).toEqual([{ last_outcome: 'done' }]);
});

test('a command that only shows something ends when nobody reads it any more', async () => {
  const watch = await startUnread('status', '--watch');
  expect(await watch.ended).toEqual({ code: 0, signal: null });
  expect(watch.output).toBe('');
});
