import { describe, expect, test } from 'vitest';
import { useDatabase } from '../../helpers/database.ts';
import { useProcesses, workerEnv } from '../../helpers/processes/processes.ts';
import { runCommand } from '../../helpers/processes/run-command.ts';

const processes = useProcesses();

async function runProcess(args: readonly string[], env: Record<string, string> = {}) {
  const cli = processes.cli(args, env);
  const { code } = await cli.ended;
  return { code, output: cli.output };
}

describe('with a database', () => {
  const database = useDatabase();
  const day = new Date().toISOString().slice(0, 10);
  const wrong = JSON.stringify({ externalOrderNumber: 'SO-1' });
  /** Every command that ends by itself, in an order in which each finds what it needs. */
  const calls: readonly [words: string[], code: number, output: RegExp][] = [
    [['migrate'], 0, /^The database is up to date\.$/],
    [['doctor'], 0, /^ok {4}database +Postgres .* 0 problems$/s],
    [['service', 'verify'], 0, /^holds: \d+, differs: 0, cannot tell: \d+$/m],
    [['run', 'pull-shipments'], 0, /^default pull-shipments: done: \d+ fetched.*$/],
    [['run', 'pull-shipments', '--client', 'other'], 2, /./],
    [['run', 'pull-shipments', '--json'], 0, /^\[\s+\{\s+"client": "default".*\]$/s],
    [['reconcile', 'orders'], 0, /^default reconcile orders: done: \d+ read/],
    [
      ['backfill', 'orders', '--from', day, '--to', day],
      0,
      /^default backfill orders: done: \d+ read/m,
    ],
    [['refetch', 'orders', '999999999'], 0, /not known to the service, and is not stored/],
    [['status'], 0, /^No problems\.\n.*\ndefault +pull-shipments +done/s],
    [
      ['pause', 'pull-everything'],
      2,
      /'pull-everything' is invalid .*job.*choices are pull-shipments/,
    ],
    [['pause', 'pull-orders', '--client', 'nobody'], 2, /nobody/],
    [['pause', 'pull-orders'], 0, /^pull-orders of every client: paused/],
    [['run', 'pull-orders'], 0, /skipped \(paused since .*resume pull-orders; next due/],
    [['status'], 0, /every client pull-orders: paused since .*resume pull-orders/],
    [['resume', 'pull-orders', '--client', 'default'], 1, /./],
    [['resume', 'pull-orders'], 0, /^pull-orders of every client: resumed/],
    [['run', 'track-trace'], 0, /done: /],
    [['run', 'track-trace'], 0, /skipped \(.*only once an hour; next due 20/],
    [['client', 'list'], 0, /^client .*\ndefault +http\S+ /s],
    [['client', 'accept-identity', 'default'], 0, /nothing was changed/],
    [['run', 'push-outbox'], 1, /^default push-outbox: dead 4$/],
    [['status'], 1, /^default: 4 rows are dead and block their lanes.*\n\nclient +job +state/s],
    [['database', 'accept', '--as', 'moved'], 0, /nothing was changed/],
    [['database', 'expect-failover', '--for', '1h'], 0, /accepted as restored, after 30 s/],
    [['doctor'], 0, /^ok +address +.*; a failover until 20\S+ is accepted as restored/m],
    [['database', 'expect-failover', '--for', '0s'], 0, /^No failover is expected any more\.$/],
    [['database', 'expect-failover', '--for', 'soon'], 2, /must be a span/],
    [['outbox', 'list'], 0, /order\.create +SO-1 +dead/],
    [['outbox', 'check', 'order.cancel', '/dev/null'], 1, /^payload: is not JSON that can be read/],
    [['outbox', 'show', '1'], 0, /locale: is missing/],
    [['outbox', 'retry', '1'], 0, /^1 row will be sent again$/],
    [['outbox', 'replace', '2', wrong], 1, /locale: is missing.*Nothing was stored/s],
    [['outbox', 'replace', '2', wrong, '--yes'], 0, /^Row 2 has the new payload and is pending$/],
    [['outbox', 'done', '3'], 0, /^1 row marked as done$/],
    [['outbox', 'cancel', '4'], 0, /^1 row cancelled$/],
    [['quarantine', 'list'], 0, /^Nothing is in quarantine\.$/],
    [['quarantine', 'show', '999'], 1, /^There is no row 999 in quarantine/],
    [['quarantine', 'replay'], 0, /0 released, 0 kept|Nothing/],
    [['events', 'list'], 0, /^Events are off: no worker has a receiver.*EVENT_WEBHOOK_URL/],
    [['events', 'retry'], 0, /^0 events that were given up are due now\.$/],
    [['events', 'retry', '7'], 1, /^Nothing was done for 7: /m],
    [['outbox', 'list', '--limit', '0'], 2, /a whole number from 1 to 100000/],
    [['outbox', 'retry', '--status', 'done'], 2, /choices are dead, unknown, pending\./],
    [['sandbox', '--port', '65536'], 2, /a whole number from 0 to 65535/],
    [
      ['sandbox', '--port', '0', '--host', 'host.invalid'],
      2,
      /^--host host\.invalid, --port 0: .*not known \(ENOTFOUND\)$/,
    ],
    [['demo', '--database', 'demo'], 2, /^--database: must begin with postgres:\/\/ or /],
    [['client'], 2, /Example:\n {2}fulfilment-sync client list$/],
    [['run', '--help'], 0, /^ {2}job +.*choices: "pull-shipments"/m],
    [['reconcile', '--help'], 0, /^ {2}stream +.*choices: "shipments"/m],
    [['erase', 'SO-1', '--dry-run'], 1, /./],
    [['erase', '', '--dry-run'], 2, /The argument order is empty/],
    [['outbox', 'cancel', '5', ''], 2, /The argument ids is empty/],
    [['database', 'accept', '--as', 'copy'], 0, /^Accepted as a copy: no row or event is sent/m],
    [['events', 'list'], 0, /^Events are off.*\nNo event is posted: this database is a copy/],
    [['events', 'retry'], 0, /^0 events .*\nNo event is posted: this database is a copy/],
  ];
  test('each command prints its result and ends with its exit code', async () => {
    const sandbox = await processes.sandbox();
    await sandbox.advance(86_400);
    const env = workerEnv(database.url, sandbox, { LOG_LEVEL: 'silent' });
    for (let row = 1; row <= 4; row++)
      await database.query(
        `insert into fulfilment.outbox (kind, reference, payload) values ('order.create', 'SO-${row}', '{}')`,
      );
    for (const [words, code, output] of calls)
      expect([words, await runCommand(words, env)]).toEqual([
        words,
        { code, output: expect.stringMatching(output) },
      ]);
  });

  test('a role without rights is told what to check', async () => {
    await database.query(`do $$ begin
      if not exists (select from pg_roles where rolname = 'cli_nobody') then
        create role cli_nobody login password 'test';
      end if; end $$`);
    const url = Object.assign(new URL(database.url), { username: 'cli_nobody', password: 'test' });
    expect(await runCommand(['status'], { DATABASE_URL: url.href })).toEqual({
      code: 1,
      output: expect.stringMatching(/^permission denied for schema sync\nCheck DATABASE_URL/),
    });
  });

  test('a process ends with the exit code of its command; wrong usage ends with 2', async () => {
    const env = workerEnv(database.url, await processes.sandbox(), { LOG_LEVEL: 'silent' });
    expect((await runProcess(['quarantine', 'show', '999'], env)).code).toBe(1);
    // Its standard input has ended.
    expect(await runProcess(['mcp'], env)).toEqual({ code: 0, output: '' });
    for (const [command, words] of [
      ['wroker', "'wroker'"],
      ['status', 'DATABASE_URL'],
    ] as const)
      expect(await runProcess([command])).toEqual({
        code: 2,
        output: expect.stringContaining(words),
      });
  });
});

describe('with an empty database', () => {
  const empty = useDatabase({ migrated: false });

  test('a worker names migrate; a failing run is shown by status', async () => {
    const sandbox = await processes.sandbox();
    const env = workerEnv(empty.url, sandbox, { LOG_LEVEL: 'warn' });
    expect(await runProcess(['worker'], env)).toMatchObject({
      code: 1,
      output: expect.stringContaining('run: fulfilment-sync migrate'),
    });
    expect((await runCommand(['migrate'], env)).output).toContain('Applied 0001_foundation');
    await sandbox.faults({ operation: 'v3.shipments.list', effect: { status: 400 } });

    const failed = await runCommand(['run', 'pull-shipments'], env);
    expect(failed.code).toBe(1);
    expect(failed.output).toContain('answered 400: «A fault of the sandbox»');
    const { code, output } = await runCommand(['status'], env);
    // It is tried again by itself, so nobody must act yet.
    expect(code).toBe(0);
    expect(output).toMatch(/default v3\.shipments\.list: fails since .* answered 400/);
    expect(failed.output + output).not.toMatch(/bearer|access_token/i);
  });
});
