import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { useDatabase } from '../helpers/database.ts';
import { useProcesses, workerEnv } from '../helpers/processes.ts';
import { waitFor } from '../helpers/wait.ts';

const processes = useProcesses();

async function run(args: readonly string[], env: Record<string, string> = {}) {
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
    const { code, output } = await run(args, env);
    expect(output).toMatch(words);
    expect(code).toBe(2);
  });
});

test('help ends with 0, with an example for each command', async () => {
  expect((await run(['--help'])).code).toBe(0);
  for (const command of ['worker', 'migrate', 'status', 'run', 'pause', 'resume', 'sandbox', 'demo']) {
    const { code, output } = await run([command, '--help']);
    expect(code).toBe(0);
    expect(output).toContain('Example:');
  }
});

describe('against a database', () => {
  const empty = useDatabase({ migrated: false });

  test('migrate, run and status, from nothing to a table a person reads', async () => {
    const sandbox = await processes.sandbox();
    await sandbox.seed(30);
    const env = workerEnv(empty.url, sandbox, { LOG_LEVEL: 'warn' });
    const early = await run(['worker'], env);
    expect(early).toMatchObject({ code: 1, output: expect.stringContaining('run: fulfilment-sync migrate') });
    expect(await run(['migrate'], env)).toMatchObject({
      code: 0,
      output: expect.stringContaining('Applied 0001_foundation'),
    });
    expect(await run(['migrate'], env)).toMatchObject({ code: 0, output: 'The database is up to date.' });
    expect((await run(['run', 'pull-shipments'], env)).output).toMatch(
      /default pull-shipments: done: 30 fetched in \d pages; rows created \d+/,
    );
    expect((await run(['run', 'pull-shipments', '--client', 'other'], env)).code).toBe(2);
    expect((await run(['status'], env)).output).toMatch(/client +job +state.*\ndefault +pull-shipments +done/);
    expect(JSON.parse((await run(['status', '--json'], env)).output)).toMatchObject({
      lookbackDays: 7,
      jobs: [{ job: 'pull-shipments', lastFetched: 30, lastOutcome: 'done' }],
      streams: [{ stream: 'shipments', firstLoad: false, lastFetched: 30, gaps: [], openRescans: [] }],
    });
    await sandbox.faults({ operation: 'v3.shipments.list', effect: { status: 400 } });
    const failed = await run(['run', 'pull-shipments'], env);
    expect(failed).toMatchObject({
      code: 1,
      output: expect.stringContaining('answered 400: «A fault of the sandbox»'),
    });
    const { output } = await run(['status'], env);
    expect(output).toMatch(/failed 1 times: v3\.shipments\.list: answered 400/);
    expect(failed.output + output).not.toMatch(/bearer|access_token/i);
  });

  test('a port that is taken is named', async () => {
    const sandbox = await processes.sandbox();
    const env = workerEnv(empty.url, sandbox, { ADMIN_PORT: sandbox.url.port });
    expect(await run(['worker'], env)).toMatchObject({
      code: 1,
      output: expect.stringContaining(`ADMIN_PORT ${sandbox.url.port} is in use`),
    });
  });
});

describe('demo', () => {
  /** Processes that carry our marker in their environment. */
  const marked = (marker: string) =>
    readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name))
      .filter((pid) => {
        try {
          return readFileSync(`/proc/${pid}/environ`, 'utf8').includes(marker);
        } catch {
          // It ended between the listing and the look.
          return false;
        }
      });

  test.skipIf(!existsSync('/proc/self/environ')).each(['SIGINT', 'SIGKILL'] as const)(
    'leaves nothing behind after %s',
    async (signal) => {
      const folder = mkdtempSync(join(tmpdir(), 'fulfilment-sync-demo-'));
      // As root, Postgres runs as another user, who must be able to enter it.
      chmodSync(folder, 0o755);
      const demo = processes.cli(['demo'], { TMPDIR: folder });
      await demo.line('pull-shipments done');
      expect(marked(folder).length).toBeGreaterThan(3);
      const startedAtMs = performance.now();
      demo.kill(signal);
      await demo.ended;
      await waitFor('every process to be gone', () => marked(folder).length === 0, 10_000);
      if (signal === 'SIGINT') {
        expect(performance.now() - startedAtMs).toBeLessThan(5_000);
        expect((await demo.ended).code).toBe(0);
      }
      expect(readdirSync(folder)).toEqual([]);
      rmSync(folder, { recursive: true });
    },
  );
});
