import { expect, test } from 'vitest';
import { writeSwitches } from '../../helpers/config/operations-file.ts';
import { useDatabase } from '../../helpers/database.ts';
import { useProcesses, workerEnv } from '../../helpers/processes/processes.ts';
import { runCommand } from '../../helpers/processes/run-command.ts';
import type { SandboxControl } from '../../helpers/sandbox-control.ts';

const database = useDatabase();
const processes = useProcesses();

interface Finding {
  check: string;
  state: string;
  found: string;
  remedy: string | null;
}

async function doctor(env: Record<string, string>): Promise<{ code: number; wrong: Finding[] }> {
  const { code, output } = await runCommand(['doctor', '--json'], env);
  const findings = JSON.parse(output) as Finding[];
  // Every finding that is not ok has a remedy, and the output holds no secret.
  for (const { state, remedy } of findings) expect(remedy === null).toBe(state === 'ok');
  expect(output).not.toMatch(/s3cret|"default:default"/);
  return {
    code,
    wrong: findings.filter(
      ({ state, check }) => state !== 'ok' && !['connections', 'durability'].includes(check),
    ),
  };
}

const otherDatabase = (change: (url: URL) => void) => {
  const url = new URL(database.url);
  change(url);
  return { DATABASE_URL: url.href };
};
const setLists = (sandbox: SandboxControl, path: (string | number)[], value: unknown) =>
  sandbox.faults({ operation: 'common.settings.get', effect: { set: [{ path, value }] } });

test('a correct set-up is ok in every check; the text names what is switched', async () => {
  const sandbox = await processes.sandbox();
  const env = workerEnv(database.url, sandbox);
  expect(await doctor(env)).toEqual({ code: 0, wrong: [] });
  const switches = { 'v3.orders.create': { optional: ['locale'] } };
  const { code, output } = await runCommand(['doctor'], {
    ...env,
    WAREHOUSE_OPERATIONS_FILE: writeSwitches(switches),
  });
  expect(code).toBe(0);
  expect(output).toMatch(/^ok {4}database +Postgres \d+/m);
  expect(output).toMatch(/not shown in the interface description: .*v3\.orders\.update/);
  expect(output).toContain('; switches: optional of v3.orders.create');
  // The database does not know of the switch before `migrate` has run with that file.
  expect(output).toMatch(
    /^warn {2}kinds +.* differently: order\.create \(schema\), .*\n.*migrate, with/m,
  );
});

test('the clock of a sandbox is ok, although it is fast; a wrong clock is found', async () => {
  const sandbox = await processes.sandbox();
  const env = workerEnv(database.url, sandbox);
  await sandbox.call('POST', '/_sandbox/reset', { speed: 60, startMs: Date.now() + 3_600_000 });
  expect(await doctor(env)).toEqual({ code: 0, wrong: [] });
  await sandbox.call('POST', '/_sandbox/reset', { speed: 1, startMs: Date.now() + 3_600_000 });
  const { wrong } = await doctor(env);
  expect(wrong).toMatchObject([
    {
      check: 'default: clock',
      found: expect.stringMatching(/this machine is 3\d\d\d s (behind|ahead of) the service/),
    },
  ]);
});

const alterDatabase = (change: string) =>
  database.query(
    `do $$ begin execute format('alter database %I ${change}', current_database()); end $$`,
  );

interface BrokenSetup {
  readonly name: string;
  readonly env?: () => Record<string, string>;
  readonly before?: (sandbox: SandboxControl) => Promise<unknown>;
  readonly finds: readonly [state: string, check: string, found: RegExp, remedy: RegExp];
}

const brokenSetups: readonly BrokenSetup[] = [
  {
    name: 'a database that is not there',
    env: () => otherDatabase((url) => Object.assign(url, { port: '9' })),
    finds: ['fail', 'database', /ECONNREFUSED/, /check DATABASE_URL/],
  },
  {
    name: 'a database that was never migrated',
    before: () => database.query('drop schema fulfilment cascade; drop schema sync cascade'),
    finds: ['fail', 'schema', /has no schema yet$/, /^run: fulfilment-sync migrate$/],
  },
  {
    name: 'a program that is older than the schema',
    before: () =>
      database.query(
        "insert into sync.migrations (name, applied_by) values ('9999_later', '9.9.9')",
      ),
    finds: ['fail', 'schema', /which this program does not know$/, /^upgrade fulfilment-sync$/],
  },
  {
    name: 'a role that may only read',
    before: () =>
      database.query(`do $$ begin
        if not exists (select from pg_roles where rolname = 'doctor_reads') then create role doctor_reads login password 's3cret'; end if;
        grant usage on schema sync, fulfilment, bullmq to doctor_reads;
        grant select on all tables in schema sync, fulfilment to doctor_reads; end $$`),
    env: () =>
      otherDatabase((url) => Object.assign(url, { username: 'doctor_reads', password: 's3cret' })),
    finds: ['fail', 'grants', /lacks DELETE on .* more/, /use the role that ran migrate/],
  },
  {
    name: 'a database that takes no writes',
    before: () => alterDatabase('set default_transaction_read_only = on'),
    finds: ['fail', 'database', /read-only/, /primary/],
  },
  {
    name: 'a service that is not there',
    env: () => ({ WAREHOUSE_BASE_URL: 'http://127.0.0.1:9' }),
    finds: ['fail', 'default: service', /no connection/, /base URL http:\/\/127.0.0.1:9/],
  },
  {
    name: 'credentials that are refused',
    env: () => ({ WAREHOUSE_PASSWORD: 's3cret' }),
    finds: ['fail', 'default: access', /refuses the user name and password/, /correct them/],
  },
  {
    name: 'a base URL whose path is wrong',
    env: () => ({ WAREHOUSE_OPERATIONS_FILE: writeSwitches({ 'common.token': { path: '/x' } }) }),
    finds: ['fail', 'default: access', /answers POST \/token with 404/, /base URL/],
  },
  {
    name: 'another account than the one that was accepted',
    before: () =>
      database.query(
        `insert into sync.clients (client, identity, base_url) values ('default', 'x', 'https://former.test/')`,
      ),
    finds: ['fail', 'default: account', /former.test/, /client accept-identity default/],
  },
  {
    name: 'a database that was restored',
    before: () =>
      database.query(
        `insert into sync.push_database (mark, accepted_as, accepted_by) values ('1/2/3/4', 'first', 'w')`,
      ),
    finds: ['fail', 'database_changed', /no row is sent/, /database accept --as/],
  },
  {
    name: 'settings that do not answer as documented',
    before: (sandbox) => setLists(sandbox, ['result'], null),
    finds: ['fail', 'default: service lists', /is not an object/, /as documented/],
  },
  {
    name: 'a variable whose name is misspelt',
    env: () => ({ WAREHOUSE_TIMEZONE: 'Europe/Paris' }),
    finds: ['warn', 'configuration', /no variable WAREHOUSE_TIMEZONE/, /.env.example/],
  },
  {
    name: 'watched articles whose stock no job reads',
    before: () => database.query("insert into fulfilment.stock_watch (sku) values ('A'), ('B')"),
    finds: ['warn', 'stock_off', /2 articles are watched/, /set SCHEDULE_PULL_STOCK/],
  },
  {
    name: 'a Redis that is not there',
    env: () => ({ REDIS_URL: 'redis://127.0.0.1:9' }),
    finds: ['fail', 'queue', /ECONNREFUSED/, /check REDIS_URL/],
  },
];

test.each(brokenSetups)('$name is found, with what to do', async ({ env, before, finds }) => {
  const [state, check, found, remedy] = finds;
  const sandbox = await processes.sandbox();
  await before?.(sandbox);
  const { code, wrong } = await doctor({ ...workerEnv(database.url, sandbox), ...env?.() });
  expect(wrong).toEqual([
    { check, state, found: expect.stringMatching(found), remedy: expect.stringMatching(remedy) },
  ]);
  expect(code).toBe(state === 'fail' ? 1 : 0);
});
