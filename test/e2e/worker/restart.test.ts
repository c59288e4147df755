import { expect, test } from 'vitest';
import { type ConfigFolder, useConfigFolders } from '../../helpers/config/config-folder.ts';
import { useDatabase } from '../../helpers/database.ts';
import { insertOrders } from '../../helpers/order-payload.ts';
import type { CliProcess } from '../../helpers/processes/cli-process.ts';
import { startSandbox, useProcesses } from '../../helpers/processes/processes.ts';
import { waitFor } from '../../helpers/wait.ts';

const database = useDatabase();
const processes = useProcesses();
const makeFolder = useConfigFolders();

/** Starts a sandbox with two clients. Its time does not advance by itself. */
const startTwoClients = async () =>
  (await startSandbox(processes.cli, '--clients', 'north,south')).control;

/** Starts a worker with the files of a folder, and these variables of its own. */
const startWorker = (folder: ConfigFolder, own: Record<string, string> = {}) =>
  processes.cli(['worker', '--env-file', folder.file('worker.env')], {
    DATABASE_URL: database.url,
    WAREHOUSE_CLIENTS_FILE: folder.file('clients.json'),
    ...own,
  });

interface LogLine {
  readonly event: string;
  readonly client?: string;
  readonly job?: string;
  readonly problems?: readonly string[];
  readonly withoutWorkerMs?: number;
  readonly port?: number;
}

/** Returns the log lines of an event so far. */
const eventsOf = ({ lines }: CliProcess, event: string): LogLine[] =>
  lines
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as LogLine)
    .filter((line) => line.event === event);

/** Waits for the log line of an event with this number, counted from one. */
const waitForEvent = (worker: CliProcess, event: string, number = 1): Promise<LogLine> =>
  waitFor(`${event} ${number}`, () => eventsOf(worker, event)[number - 1]);

const countRows = async (query: string) => (await database.query(`select from ${query}`)).length;
const countShipments = (client: string) =>
  countRows(`fulfilment.shipments where client = '${client}'`);

const countDone = () => countRows(`fulfilment.outbox where status = 'done'`);

async function stop(worker: CliProcess): Promise<void> {
  worker.kill('SIGTERM');
  expect(await worker.ended).toEqual({ code: 0, signal: null });
  expect(worker.output).not.toMatch(/"uncaught"|background_failed|stop_forced|leftOut/);
  expect(await countRows(`sync.runs where status = 'running'`)).toBe(0);
  expect(await countRows('sync.leases where expires_at is not null')).toBe(0);
}

test('SIGHUP takes over a password, a client and lines of --env-file, and logs the time without a worker', async () => {
  const [sandbox, folder] = [await startTwoClients(), makeFolder()];
  for (const client of ['north', 'south']) await sandbox.seed(3, { client });
  folder.clients(sandbox.url, 'north');
  folder.replace('password-north', 'wrong');
  folder.env({
    ADMIN_PORT: '0',
    LOOKBACK_DAYS: '3',
    SCHEDULE_PULL_SHIPMENTS: '1s',
    SCHEDULE_PUSH_OUTBOX: 'off',
  });
  const worker = startWorker(folder, { LOOKBACK_DAYS: '9' });
  await worker.line('credentials_refused');

  folder.replace('password-north', 'north\n');
  worker.kill('SIGHUP');
  expect((await waitForEvent(worker, 'worker_restarted')).withoutWorkerMs).toBeGreaterThan(0);
  await waitFor('the client with its password', async () => (await countShipments('north')) === 3);

  folder.clients(sandbox.url, 'north', 'south');
  folder.env({ ADMIN_PORT: '0', LOOKBACK_DAYS: '4', SCHEDULE_PULL_SHIPMENTS: '1s' });
  worker.kill('SIGHUP');
  await waitForEvent(worker, 'worker_restarted', 2);
  await waitFor('the new client', async () => (await countShipments('south')) === 3);
  // The line that switched pushes off is gone.
  await insertOrders(database, 1, 1, 'south');
  await waitFor('its order', async () => (await countDone()) === 1);
  const [, , admin] = eventsOf(worker, 'admin_listening');
  const metrics = await (await fetch(`http://127.0.0.1:${admin?.port}/metrics`)).text();
  // The environment of the process comes first. What all workers of the process did is counted.
  expect(metrics).toMatch(/^fulfilment_lookback_days 9$/m);
  expect(metrics).toMatch(/^fulfilment_runs_total\{client="north".*outcome="failed"\} [1-9]/m);
  expect(eventsOf(worker, 'worker_started')).toHaveLength(3);
  await stop(worker);
});

test('a configuration that is wrong, or cannot be used, is named and changes nothing', async () => {
  const [sandbox, folder] = [await startTwoClients(), makeFolder()];
  await sandbox.seed(2, { client: 'north' });
  folder.clients(sandbox.url, 'north');
  const present = { DATABASE_URL: database.url, ADMIN_PORT: '0', SCHEDULE_PULL_SHIPMENTS: '1s' };
  folder.env(present);
  await sandbox.faults({ operation: 'v3.shipments.list', count: 1, effect: { delayMs: 3_000 } });
  const files = ['worker', '--env-file', folder.file('worker.env')];
  const worker = processes.cli(files, { WAREHOUSE_CLIENTS_FILE: folder.file('clients.json') });
  await waitFor('a run under way', async () => (await sandbox.count('v3.shipments.list')) > 0);
  folder.replace(
    'clients.json',
    `[{"key": "north", "baseUrl": "ftp://x", "username": "u", "password": "s3cret"}]`,
  );
  folder.env({ ...present, SCHEDULE_PULL_SHIPMENTS: 'sometimes' });
  worker.kill('SIGHUP');
  expect((await waitForEvent(worker, 'config_refused')).problems).toEqual([
    expect.stringMatching(/^SCHEDULE_PULL_SHIPMENTS: is not a schedule/),
    'WAREHOUSE_CLIENTS_FILE: 0.baseUrl: must be an http or https address',
  ]);
  await waitFor('the run under way', async () => (await countShipments('north')) === 2);
  await sandbox.seed(1, { client: 'north' });
  await waitFor('later runs', async () => (await countShipments('north')) === 3);
  expect(worker.output).not.toMatch(/s3cret|run_stopped|worker_restarting/);

  folder.clients(sandbox.url, 'north');
  const elsewhere = Object.assign(new URL(database.url), { pathname: '/not_there' });
  folder.env({ ...present, DATABASE_URL: elsewhere.href, ADMIN_PORT: sandbox.url.port });
  worker.kill('SIGHUP');
  expect((await waitForEvent(worker, 'config_refused', 2)).problems).toEqual([
    expect.stringMatching(/^DATABASE_URL: .*"not_there" does not exist/),
    expect.stringMatching(/^ADMIN_PORT: .*EADDRINUSE/),
  ]);

  const strange = {
    ADMIN_HOST: '192.0.2.1',
    ADMIN_TOKEN: 'a-token-that-is-long-enough-to-be-taken',
  };
  folder.env({ ...present, ...strange });
  worker.kill('SIGHUP');
  expect((await waitForEvent(worker, 'config_refused', 3)).problems).toEqual([
    expect.stringMatching(/^ADMIN_HOST: .*EADDRNOTAVAIL/),
  ]);
  await sandbox.seed(1, { client: 'north' });
  await waitFor('the worker still runs', async () => (await countShipments('north')) === 4);
  await stop(worker);
});

test('rows and runs under way at a SIGHUP are neither lost nor doubled; further signals make one restart', async () => {
  const [sandbox, folder] = [await startTwoClients(), makeFolder()];
  await sandbox.seed(1_000, { client: 'north' });
  folder.clients(sandbox.url, 'north');
  // Orders would give the shipments their numbers, which is a second change of each.
  folder.env({ ADMIN_PORT: '0', SCHEDULE_PULL_ORDERS: 'off' });
  await sandbox.faults(
    { operation: 'v3.orders.create', effect: { delayMs: 2_000 } },
    { operation: 'v3.shipments.list', effect: { delayMs: 500 } },
  );
  await insertOrders(database, 1, 40, 'north');
  const worker = startWorker(folder);
  await waitFor(
    'some rows and pages',
    async () => (await countDone()) > 0 && (await countShipments('north')) > 0,
  );
  worker.kill('SIGHUP');
  await worker.line('worker_restarting');
  for (let signals = 0; signals < 3; signals += 1) {
    worker.kill('SIGHUP');
    // Signals at once would be one signal for the worker.
    await sandbox.requests();
  }
  await waitForEvent(worker, 'worker_restarting', 2);
  await waitFor('all rows', async () => (await countDone()) === 40);
  await sandbox.clearFaults();
  await waitFor('all pages', async () => (await countShipments('north')) === 1_000);
  expect(eventsOf(worker, 'run_stopped').map(({ job }) => job)).toContain('pull-shipments');
  const created = (await sandbox.requests()).filter(
    ({ operation }) => operation === 'v3.orders.create',
  );
  expect(created).toHaveLength(40);
  expect(await countRows('fulfilment.outbox where attempts <> 1')).toBe(0);
  const doubled = `select from fulfilment.changes where entity = 'shipments' group by id having count(*) > 1`;
  expect(await database.query(doubled)).toEqual([]);
  expect(eventsOf(worker, 'worker_restarting')).toHaveLength(2);
  await stop(worker);
});

/** Returns SQL that changes a setting of this test's database. */
const alterDatabase = (change: string) =>
  `do $$ begin execute format('alter database %I ${change}', current_database()); end $$`;

test('SIGHUP ends no worker that starts or stops, and SIGTERM during a restart stops', async () => {
  const [sandbox, folder] = [await startTwoClients(), makeFolder()];
  await sandbox.seed(1, { client: 'south' });
  folder.clients(sandbox.url, 'north');
  folder.env({ ADMIN_PORT: '0' });
  await database.query(alterDatabase('set default_transaction_read_only = on'));
  try {
    const worker = startWorker(folder);
    await worker.line('boot_waits');
    folder.clients(sandbox.url, 'north', 'south');
    worker.kill('SIGHUP');
    await waitForEvent(worker, 'admin_listening', 2);
    await database.query(alterDatabase('reset default_transaction_read_only'));
    await waitFor(
      'the client that was added during the start',
      async () => (await countShipments('south')) === 1,
    );
    await sandbox.faults({ operation: 'v3.orders.create', effect: { delayMs: 3_000 } });
    await insertOrders(database, 1, 1, 'north');
    await waitFor('an order under way', async () => (await sandbox.count('v3.orders.create')) > 0);
    worker.kill('SIGHUP');
    await waitForEvent(worker, 'worker_restarting', 2);
    worker.kill('SIGTERM');
    await worker.line('worker_stopping');
    worker.kill('SIGHUP');
    expect(await worker.ended).toEqual({ code: 0, signal: null });
    expect(eventsOf(worker, 'worker_started')).toHaveLength(1);
    expect(await countDone()).toBe(1);
  } finally {
    await database.query(alterDatabase('reset default_transaction_read_only'));
  }
});
