import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Command } from 'commander';
import pg from 'pg';
import { describe, expect, test } from 'vitest';
import { createCli } from '../../../src/app/program.ts';
import { useDatabase } from '../../helpers/database.ts';
import { useProcesses, workerEnv } from '../../helpers/processes/processes.ts';
import { runCommand } from '../../helpers/processes/run-command.ts';
import { waitFor } from '../../helpers/wait.ts';

const commandLine = await createCli();

const processes = useProcesses();

async function runProcess(args: readonly string[], env: Record<string, string> = {}) {
  const cli = processes.cli(args, env);
  const { code } = await cli.ended;
  return { code, output: cli.output };
}

describe('wrong usage and configuration end with 2 and say what to do', () => {
  test.each<[string[], Record<string, string>, RegExp]>([
    [['wroker'], {}, /unknown command 'wroker'/],
    [['run'], {}, /missing required argument 'job'/],
    [['run', 'pull-everything'], {}, /There is no job pull-everything; known are pull-shipments/],
    [['sandbox', '--port', 'x'], {}, /whole number/],
    [['sandbox', '--clients', 'Shop A'], {}, /--clients takes names/],
    [['migrate'], {}, /DATABASE_URL: is required/],
    [
      ['worker'],
      { DATABASE_URL: 'mysql://x', LOOKBACK_DAYS: '-1' },
      /DATABASE_URL: must begin.*LOOKBACK_DAYS: .*WAREHOUSE_BASE_URL: is required/s,
    ],
  ])('%j %j', async (args, env, words) => {
    const { code, output } = await runCommand(args, env);
    expect(output).toMatch(words);
    expect(code).toBe(2);
  });
});

test('help ends with 0', async () => {
  expect(await runCommand(['--help'])).toMatchObject({ code: 0, output: expect.stringContaining('Commands:') });
  expect(await runCommand(['worker', '--help'])).toMatchObject({
    code: 0,
    output: expect.stringContaining('Example:'),
  });
});

describe('as a separate process', () => {
  const database = useDatabase();
  const day = new Date().toISOString().slice(0, 10);
  const wrong = JSON.stringify({ externalOrderNumber: 'SO-1' });
  /** Every command that ends by itself, in an order in which each finds what it needs. */
  const calls: readonly [words: string[], code: number, output: RegExp][] = [
    [['migrate'], 0, /^The database is up to date\.$/],
    [['doctor'], 0, /^ok {4}database +Postgres .* 0 problems$/s],
    [['service', 'verify'], 0, /^holds: \d+, differs: 0, cannot tell: \d+$/m],
    [['run', 'pull-shipments'], 0, /^default pull-shipments: done: \d+ fetched/m],
    [['reconcile', 'orders'], 0, /^default reconcile orders: done: \d+ read/],
    [['backfill', 'orders', '--from', day, '--to', day], 0, /^default backfill orders: done: \d+ read/],
    [['refetch', 'orders', '999999999'], 0, /not known to the service/],
    [['pause', 'pull-orders'], 0, /^pull-orders of every client: paused/],
    [['resume', 'pull-orders'], 0, /^pull-orders of every client: resumed/],
    [['status'], 0, /^client +job +state.*\ndefault +pull-shipments +done/s],
    [['client', 'list'], 0, /^client .*\ndefault +http\S+ /s],
    [['client', 'accept-identity', 'default'], 0, /nothing was changed/],
    [['run', 'push-outbox'], 1, /^default push-outbox: dead 4$/m],
    [['database', 'accept', '--as', 'moved'], 0, /nothing was changed/],
    [['outbox', 'list'], 0, /order\.create +SO-1 +dead/],
    [['outbox', 'check', 'order.cancel', '/dev/null'], 1, /^payload: is not JSON that can be read/],
    [['outbox', 'show', '1'], 0, /locale: is missing/],
    [['outbox', 'retry', '1'], 0, /^1 row will be sent again$/],
    [['outbox', 'replace', '2', wrong], 0, /^Row 2 has the new payload and is pending$/],
    [['outbox', 'done', '3'], 0, /^1 row marked as done$/],
    [['outbox', 'cancel', '4'], 0, /^1 row cancelled$/],
    [['quarantine', 'list'], 0, /^Nothing is in quarantine\.$/],
    [['quarantine', 'show', '999'], 1, /^There is no row 999 in quarantine/],
    [['quarantine', 'replay'], 0, /0 released, 0 kept|Nothing/],
    [['erase', 'SO-1', '--dry-run'], 1, /./],
  ];
  /** Commands that run until they are stopped: see worker.test.ts, sandbox.test.ts, and the demo below. */
  const lasting = ['worker', 'sandbox', 'demo'];

  test('each command prints its result and ends with its exit code', async () => {
    const sandbox = await processes.sandbox();
    await sandbox.advance(86_400);
    const env = workerEnv(database.url, sandbox, { LOG_LEVEL: 'silent' });
    for (let row = 1; row <= 4; row++)
      await database.query(
        `insert into fulfilment.outbox (kind, reference, payload) values ('order.create', 'SO-${row}', '{}')`,
      );
    for (const [words, code, output] of calls)
      expect([words, await runProcess(words, env)]).toEqual([words, { code, output: expect.stringMatching(output) }]);
  });

  test('the test above calls every command that ends by itself', () => {
    const leaves = (command: Command, path: string[]): string[] =>
      command.commands.length === 0
        ? [path.join(' ')]
        : command.commands.flatMap((inner) => leaves(inner, [...path, inner.name()]));
    const called = new Set([...lasting, ...calls.flatMap(([words]) => [words[0] ?? '', words.slice(0, 2).join(' ')])]);
    expect(leaves(commandLine, []).filter((name) => !called.has(name))).toEqual([]);
  });

  test('wrong usage and missing settings end with 2', async () => {
    expect(await runProcess(['wroker'])).toMatchObject({ code: 2, output: expect.stringContaining("'wroker'") });
    expect(await runProcess(['status'])).toMatchObject({ code: 2, output: expect.stringContaining('DATABASE_URL') });
  });
});

describe('against a database', () => {
  const empty = useDatabase({ migrated: false });

  test('migrate, run and status work on an empty database', async () => {
    const sandbox = await processes.sandbox();
    await sandbox.seed(30);
    const env = workerEnv(empty.url, sandbox, { LOG_LEVEL: 'warn' });
    const early = await runProcess(['worker'], env);
    expect(early).toMatchObject({ code: 1, output: expect.stringContaining('run: fulfilment-sync migrate') });
    expect(await runCommand(['migrate'], env)).toMatchObject({
      code: 0,
      output: expect.stringContaining('Applied 0001_foundation'),
    });
    expect(await runCommand(['migrate'], env)).toMatchObject({ code: 0, output: 'The database is up to date.' });
    expect((await runCommand(['run', 'pull-shipments'], env)).output).toMatch(
      /default pull-shipments: done: 30 fetched in \d pages; rows created \d+/,
    );
    expect((await runCommand(['run', 'pull-shipments', '--client', 'other'], env)).code).toBe(2);
    expect((await runCommand(['status'], env)).output).toMatch(/client +job +state.*\ndefault +pull-shipments +done/);
    expect(JSON.parse((await runCommand(['status', '--json'], env)).output)).toMatchObject({
      lookbackDays: 7,
      jobs: [{ job: 'pull-shipments', lastFetched: 30, lastOutcome: 'done' }],
      streams: [{ stream: 'shipments', firstLoad: false, lastFetched: 30, gaps: [], openRescans: [] }],
    });
    await sandbox.faults({ operation: 'v3.shipments.list', effect: { status: 400 } });
    const failed = await runCommand(['run', 'pull-shipments'], env);
    expect(failed).toMatchObject({
      code: 1,
      output: expect.stringContaining('answered 400: «A fault of the sandbox»'),
    });
    const { output } = await runCommand(['status'], env);
    expect(output).toMatch(/failed once: v3\.shipments\.list: answered 400/);
    expect(failed.output + output).not.toMatch(/bearer|access_token/i);
  });

  test('status names watched articles while pull-stock is off', async () => {
    await runCommand(['migrate'], { DATABASE_URL: empty.url });
    await empty.query("insert into fulfilment.stock_watch (client, sku) values ('shop', 'A')");
    const status = async (env: Record<string, string> = {}) =>
      (await runCommand(['status'], { DATABASE_URL: empty.url, ...env })).output;
    expect(await status()).toContain(
      'shop: pull-stock is off in this configuration, but 1 article is watched (fulfilment.stock_watch)',
    );
    expect(await status()).toContain('set SCHEDULE_PULL_STOCK, such as 1h');
    expect(await status({ SCHEDULE_PULL_STOCK: '1h' })).not.toContain('watched');
    expect(JSON.parse((await runCommand(['status', '--json'], { DATABASE_URL: empty.url })).output)).toMatchObject({
      watchedArticles: [{ client: 'shop', articles: 1 }],
    });
  });

  test('a port that is in use is named', async () => {
    const sandbox = await processes.sandbox();
    const env = workerEnv(empty.url, sandbox, { ADMIN_PORT: sandbox.url.port });
    expect(await runProcess(['worker'], env)).toMatchObject({
      code: 1,
      output: expect.stringContaining(`ADMIN_PORT ${sandbox.url.port} is in use`),
    });
  });
});

describe('demo', () => {
  test('has rows of every stream, of track-trace and of stock at its first look', async () => {
    const demo = processes.cli(['demo']);
    const url = (await demo.line("psql '")).split("'")[1] ?? '';
    const client = new pg.Client(url);
    await client.connect();
    const tables = [
      'orders',
      'shipments',
      'return_items',
      'inbounds',
      'inbound_packing_slips',
      'track_traces',
      'parcels',
    ];
    const missing = async () => {
      const counts = [...tables, 'stock_levels'].map(
        (name) => `select '${name}' where not exists (select from fulfilment.${name})`,
      );
      return (await client.query({ text: counts.join(' union all '), rowMode: 'array' })).rows.flat();
    };
    try {
      await waitFor('rows of every kind', async () => (await missing()).length === 0);
    } finally {
      await client.end();
      demo.kill('SIGINT');
      await demo.ended;
    }
  });

  /** Lists the processes whose environment holds the marker. */
  const listMarked = (marker: string) =>
    readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name))
      .filter((pid) => {
        try {
          return readFileSync(`/proc/${pid}/environ`, 'utf8').includes(marker);
        } catch {
          // The process ended after it was listed.
          return false;
        }
      });

  test.skipIf(!existsSync('/proc/self/environ')).each(['SIGINT', 'SIGKILL'] as const)(
    'leaves nothing behind after %s',
    async (signal) => {
      const folder = mkdtempSync(join(tmpdir(), 'fulfilment-sync-demo-'));
      // If the test runs as root, Postgres runs as another user, who must be able to enter the folder.
      chmodSync(folder, 0o755);
      const demo = processes.cli(['demo'], { TMPDIR: folder });
      await demo.line('pull-shipments done');
      expect(listMarked(folder).length).toBeGreaterThan(3);
      demo.kill(signal);
      await demo.ended;
      await waitFor('every process to be gone', () => listMarked(folder).length === 0);
      if (signal === 'SIGINT') expect((await demo.ended).code).toBe(0);
      expect(readdirSync(folder)).toEqual([]);
      rmSync(folder, { recursive: true });
    },
  );
});

describe('the command line', () => {
  const database = useDatabase();

  test('prints colours only if they are wanted', async () => {
    await database.query(
      `insert into sync.jobs (client, job, due_at, last_outcome) values ('default', 'pull-orders', now(), 'failed')`,
    );
    const paint = '\u001b[';
    const status = async (more: Record<string, string>) =>
      (await runCommand(['status'], { DATABASE_URL: database.url, ...more })).output;
    // The output is a pipe, not a terminal.
    expect(await status({})).not.toContain(paint);
    expect(await status({ FORCE_COLOR: '1' })).toContain(`${paint}31mfailed`);
  });

  test.skipIf(process.platform !== 'linux' || !existsSync('/usr/bin/script'))(
    'fits its output to the terminal, in colour unless NO_COLOR is set',
    async () => {
      const because = 'the payload cannot be sent: orderType: there is no code NOPE (known codes: B2B, B2C)';
      await database.query(
        `insert into fulfilment.outbox (kind, reference, status, next_attempt_at, finished_at, last_error) values ('order.cancel', 'SO-1', 'dead', null, now(), $1)`,
        [because],
      );
      const onTerminal = (columns: number, env = '') => {
        const command = `stty cols ${columns}; ${env} DATABASE_URL='${database.url}' '${process.execPath}' src/app/main.ts outbox list`;
        return execFileSync('/usr/bin/script', ['-qec', command, '/dev/null'], {
          encoding: 'utf8',
          env: { PATH: process.env.PATH, HOME: process.env.HOME, TERM: 'xterm' },
        }).replaceAll('\r', '');
      };
      const plain = onTerminal(100, 'NO_COLOR=1');
      expect(Math.max(...plain.split('\n').map((line) => line.length))).toBeLessThanOrEqual(100);
      expect(plain.replaceAll(/\s+/g, '')).toContain(because.replaceAll(' ', '').slice(0, 14));
      expect(plain).not.toContain('\u001b[');
      expect(onTerminal(100)).toContain('\u001b[31mdead');
    },
  );
});
