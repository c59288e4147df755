import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { useDatabase } from '../../helpers/database.ts';
import { usePusher } from '../../helpers/pusher.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';
import { waitFor } from '../../helpers/wait.ts';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const page = readFileSync(join(root, 'docs/erp.md'), 'utf8');
const [tables = '', ...publications] = [...page.matchAll(/^```sql\n(create .*?)^```/gms)].map(
  ([, text = '']) => text,
);
const folder = join(root, 'docs/programs');

const programs = {
  Node: [process.execPath, 'consumer.mjs'],
  Python: ['python3', 'consumer.py'],
} as const;
const hasPsycopg = (() => {
  try {
    execFileSync('python3', ['-c', 'import psycopg'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
})();

const database = useDatabase();
const sandbox = useSandbox(['default'], quiet);
const outbox = usePusher(database, sandbox);

const started: ChildProcess[] = [];
/**
 * Starts a program of the page as a role that may only write to the outbox and to its own tables.
 */
function start(name: keyof typeof programs, reference: string) {
  const url = new URL(database.url);
  url.searchParams.set('options', '-c role=fulfilment_writer');
  const [program, file] = programs[name];
  const { PATH = '', HOME = '' } = process.env;
  const env = { PATH, HOME, DATABASE_URL: url.href.replaceAll('+', '%20') };
  const child = spawn(program, [file, reference], {
    cwd: folder,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  started.push(child);
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => {
      output += chunk.toString();
    });
  return { child, ended: once(child, 'close').then(([code]) => ({ code, output: output.trim() })) };
}

beforeEach(async () => {
  await database.query(`create schema shop; ${tables}`);
  await database.query('grant usage on schema shop to fulfilment_writer');
  await database.query(
    'grant select, insert, update on all tables in schema shop to fulfilment_writer',
  );
});
afterEach(async () => {
  for (const child of started.splice(0))
    if (child.exitCode === null && child.signalCode === null && child.kill('SIGKILL'))
      await once(child, 'close');
});

const isListening = async () =>
  (
    await database.query(`select from pg_stat_activity where datname = current_database() and query ~* '^(listen|select|commit)'
    and application_name not like 'test%'`)
  ).length > 0;

describe.each(['Node', 'Python'] as const)('the program in %s', (name) => {
  const testIt = test.skipIf(name === 'Python' && !hasPsycopg);

  testIt(
    'orders once, is killed, and finds after its restart what happened meanwhile',
    async () => {
      const first = start(name, 'SO-1');
      await waitFor('the order', async () => (await outbox.rows()).length === 1);
      first.child.kill('SIGKILL');
      await first.ended;
      await outbox.push();
      expect(await start(name, 'SO-1').ended).toEqual({ code: 0, output: 'SO-1 is done' });
      expect((await outbox.rows()).map(({ reference, status }) => [reference, status])).toEqual([
        ['SO-1', 'done'],
      ]);
      const [position] = await database.query(
        `select seq = (select max(seq) from fulfilment.changes) as "isLast" from fulfilment.consumers where name = 'shop'`,
      );
      expect(position).toEqual({ isLast: true });
    },
  );

  testIt('hears of the outcome while it waits, also after its connection was lost', async () => {
    const { ended } = start(name, 'SO-2');
    await waitFor('the program to listen', isListening);
    await waitFor('the order', async () => (await outbox.rows()).length === 1);
    await database.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
       where datname = current_database() and application_name not like 'test%' and pid <> pg_backend_pid()`,
    );
    await database.query(`update fulfilment.outbox set payload = '{}'`);
    await outbox.push();
    const { code, output } = await ended;
    expect(output).toMatch(/connecting again/);
    expect(output).toMatch(/^SO-2 is dead: the payload cannot be sent: .*locale: is missing/m);
    expect(code).toBe(1);
  });
});

test.each([
  ['DATABASE_URL', 'docs/programs/consumer.mjs'],
  ['SECRET', 'docs/receivers/receiver.mjs'],
])('without %s, %s says so in one line', (variable, file) => {
  const { PATH = '', HOME = '' } = process.env;
  const { stderr } = spawnSync(process.execPath, [join(root, file)], {
    env: { PATH, HOME },
    timeout: 60_000,
  });
  expect(stderr.toString()).toMatch(new RegExp(`^Set ${variable} to .*\n$`));
});

test('Postgres accepts every statement of the program in Python', async () => {
  // Texts that follow each other are one text.
  const texts = readFileSync(join(folder, 'consumer.py'), 'utf8')
    .replaceAll(/"\s*\n\s*"/g, '')
    .matchAll(/"((?:select|insert|update) [^"]*)"/g);
  const statements = [...texts].map(([, text = '']) => text);
  expect(statements).toHaveLength(7);
  for (const statement of statements) {
    let place = 0;
    await database.query(
      `prepare checked as ${statement.replaceAll('%s', () => `$${++place}`)}; deallocate checked`,
    );
  }
});

test('Postgres accepts the publications of the page', async () => {
  expect(publications).toHaveLength(2);
  for (const publication of publications) await database.query(publication);
});
