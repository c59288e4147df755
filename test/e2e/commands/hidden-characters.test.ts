import { writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { useDatabase } from '../../helpers/database.ts';
import { storePageRows } from '../../helpers/page-rows.ts';
import { workerEnv } from '../../helpers/processes/processes.ts';
import { runCommand } from '../../helpers/processes/run-command.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], quiet);

/** What a terminal would carry out, show in another order than it was written, or not show. */
const hostile =
  'SO\u001b]0;title\u0007\u009b31m\u202e\u2066\u200f\u061c\u200b\u2060\ufeff\u{e0041}1';
const executed =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not be printed
  /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2060-\u206f\u200b\ufeff\u{e0000}-\u{e007f}]/u;
const payload = join(tmpdir(), `hidden-characters-${process.pid}.json`);

/** Stores the words wherever the service or the ERP may have put them. */
async function store(): Promise<void> {
  await storePageRows(database, { words: hostile });
  writeFileSync(payload, JSON.stringify({ [hostile]: hostile }));
  await sandbox.seed(3);
  const set = [{ path: ['data', 0, 'attributes', 'orderedOn'], value: hostile }];
  await sandbox.faults({ operation: 'v3.orders.list', effect: { set } });
}

test('no command prints a control character or a mark of direction of others', async () => {
  await store();
  const env = workerEnv(database.url, sandbox, { LOG_LEVEL: 'silent' });
  const calls: readonly (readonly string[])[] = [
    ['status'],
    ['client', 'list'],
    ['outbox', 'list'],
    ['outbox', 'show', '1'],
    ['outbox', 'show', '1', '--reveal'],
    ['outbox', 'show', '2'],
    ['outbox', 'list', '--kind', hostile],
    ['outbox', 'list', '--status', hostile],
    ['outbox', 'check', 'order.create', payload],
    ['quarantine', 'list'],
    ['quarantine', 'show', '1'],
    ['erase', hostile, '--dry-run'],
    ['erase', `${hostile}2`, '--dry-run'],
    ['run', hostile],
    ['pause', hostile],
    ['run', 'pull-orders'],
    ['reconcile', 'orders'],
    ['refetch', 'orders', '1'],
    ['refetch', 'orders', hostile],
    ['backfill', 'orders', '--from', hostile],
    ['doctor'],
    ['service', 'verify'],
  ];
  for (const words of calls)
    for (const more of words[0] === 'run' || words[0] === 'pause' ? [[]] : [[], ['--json']]) {
      const { output } = await runCommand([...words, ...more], env);
      expect([words, output.length > 0, executed.exec(output)?.index ?? null]).toEqual([
        words,
        true,
        null,
      ]);
    }
  const [shown] = JSON.parse((await runCommand(['outbox', 'list', '--json'], env)).output) as {
    reference: string;
  }[];
  expect(shown?.reference).toBe(hostile);
});
