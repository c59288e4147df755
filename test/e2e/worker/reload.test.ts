import { describe, expect, test } from 'vitest';
import { type SettingsFolder, useSettingsFolders } from '../../helpers/config/settings-folder.ts';
import { useDatabase } from '../../helpers/database.ts';
import { orderPayload } from '../../helpers/order-payload.ts';
import type { CliProcess } from '../../helpers/processes/cli-process.ts';
import { useProcesses } from '../../helpers/processes/processes.ts';
import { runCommand } from '../../helpers/processes/run-command.ts';
import { SandboxControl } from '../../helpers/sandbox-control.ts';
import { startRotatingService } from '../../helpers/services/rotating-service.ts';
import { waitFor } from '../../helpers/wait.ts';

const database = useDatabase();
const processes = useProcesses();
const makeFolder = useSettingsFolders();

/** Starts a sandbox with two clients. Its time does not advance by itself. */
async function startSandbox(): Promise<SandboxControl> {
  const args = ['--strict', '--port', '0', '--speed', '0', '--clients', 'north,south'];
  const line = await processes.cli(['sandbox', ...args]).line('Sandbox at ');
  return new SandboxControl(new URL(/Sandbox at (\S+)/.exec(line)?.[1] ?? ''));
}

const makeEnv = (folder: SettingsFolder, more: Record<string, string> = {}) => ({
  DATABASE_URL: database.url,
  WAREHOUSE_CLIENTS_FILE: folder.file('clients.json'),
  SETTINGS_FILE: folder.file('settings.env'),
  ADMIN_PORT: '0',
  ...more,
});

interface LogLine {
  readonly event: string;
  readonly client?: string;
  readonly job?: string;
  readonly changes?: readonly string[];
  readonly problems?: readonly string[];
  readonly settings?: readonly string[];
  readonly cause?: string;
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

const countShipments = async (client: string) =>
  (await database.query('select from fulfilment.shipments where client = $1', [client])).length;

const insertOrder = (client: string, number: string) =>
  database.query(
    `insert into fulfilment.outbox (client, kind, reference, payload) values ($1, 'order.create', $2, $3)`,
    [client, number, JSON.stringify(orderPayload(number))],
  );
const readStatus = async (reference: string) =>
  (
    await database.query<{ status: string }>('select status from fulfilment.outbox where reference = $1', [reference])
  )[0]?.status;

async function stop(worker: CliProcess): Promise<void> {
  worker.kill('SIGTERM');
  expect(await worker.ended).toEqual({ code: 0, signal: null });
  expect(worker.output).not.toMatch(/"uncaught"|background_failed|settings_waiting|leftOut/);
}

test('SIGHUP adds a client, which is pulled and pushed, and changes a schedule; then it removes one', async () => {
  const [sandbox, folder] = [await startSandbox(), makeFolder()];
  for (const client of ['north', 'south']) await sandbox.seed(3, { client });
  folder.clients(sandbox.url, 'north');
  folder.settings({ SCHEDULE_PULL_SHIPMENTS: '1d', SCHEDULE_PULL_ORDERS: '2s' });
  const worker = processes.cli(['worker'], makeEnv(folder));
  await waitFor('the first client', async () => (await countShipments('north')) === 3);

  folder.clients(sandbox.url, 'north', 'south');
  folder.settings({ SCHEDULE_PULL_SHIPMENTS: '1s', SCHEDULE_PULL_ORDERS: '2s', PUSH_CONCURRENCY: '3' });
  worker.kill('SIGHUP');
  expect(await waitForEvent(worker, 'settings_reloaded')).toMatchObject({
    cause: 'SIGHUP',
    changes: ['client south added', 'pull-shipments 1d -> 1s', 'PUSH_CONCURRENCY 8 -> 3'],
  });
  await waitFor('the added client', async () => (await countShipments('south')) === 3);
  await insertOrder('south', 'SO-1');
  await waitFor('an order of the added client', async () => (await readStatus('SO-1')) === 'done');
  await sandbox.seed(1, { client: 'north' });
  await waitFor('the shorter schedule', async () => (await countShipments('north')) === 4);

  // A run and an order of the client are under way while it is removed.
  await sandbox.faults(
    { operation: 'v3.shipments.list', client: 'south', effect: { noAnswer: true } },
    { operation: 'v3.orders.create', client: 'south', count: 1, effect: { delayMs: 3_000 } },
  );
  const place = await sandbox.lastPlace();
  await insertOrder('south', 'SO-2');
  const asked = async () => (await sandbox.requests(place)).filter(({ client }) => client === 'south');
  await waitFor('both to be under way', async () => {
    const names = (await asked()).map(({ operation }) => operation);
    return names.includes('v3.shipments.list') && names.includes('v3.orders.create');
  });
  folder.clients(sandbox.url, 'north');
  worker.kill('SIGHUP');
  expect((await waitForEvent(worker, 'settings_reloaded', 2)).changes).toEqual(['client south removed']);
  await insertOrder('south', 'SO-3');
  await waitFor('the order under way', async () => (await readStatus('SO-2')) === 'done');
  await waitFor('the run under way to stop', () =>
    eventsOf(worker, 'run_stopped').some(({ client, job }) => client === 'south' && job === 'pull-shipments'),
  );
  await sandbox.clearFaults();
  const removedPlace = await sandbox.lastPlace();
  await insertOrder('north', 'SO-4');
  await waitFor('the client that stays', async () => (await readStatus('SO-4')) === 'done');
  await sandbox.seed(1, { client: 'north' });
  await waitFor('its polls', async () => (await countShipments('north')) === 5);
  // Its row stays, and nothing is asked for it.
  expect(await readStatus('SO-3')).toBe('pending');
  expect((await sandbox.requests(removedPlace)).filter(({ client }) => client === 'south')).toEqual([]);
  await stop(worker);
  expect(await database.query(`select from sync.runs where status = 'running'`)).toEqual([]);
  expect(await database.query('select from sync.worker_settings')).toEqual([]);
});

test('a wrong file changes nothing and is named everywhere; corrected, it is taken over without a signal', async () => {
  const [sandbox, folder] = [await startSandbox(), makeFolder()];
  folder.clients(sandbox.url, 'north');
  folder.settings({ SCHEDULE_PULL_SHIPMENTS: '1s', ADMIN_TOKEN: 'a'.repeat(40) });
  const env = makeEnv(folder);
  const worker = processes.cli(['worker'], env);
  const { port } = JSON.parse(await worker.line('admin_listening')) as { port: number };
  const ask = (path: string, accept = 'application/json') =>
    fetch(`http://127.0.0.1:${port}${path}`, { headers: { accept, authorization: `Bearer ${'a'.repeat(40)}` } });
  await worker.line('worker_started');

  folder.replace('clients.json', `[{"key": "south", "baseUrl": "ftp://x", "username": "u", "password": "s3cret"}]`);
  folder.settings({ SCHEDULE_PULL_SHIPMENTS: 'sometimes', ADMIN_TOKEN: 'a'.repeat(40) });
  const refused = await waitForEvent(worker, 'settings_refused');
  expect(refused.cause).toBe('file');
  expect(refused.problems).toEqual([
    expect.stringMatching(/^SCHEDULE_PULL_SHIPMENTS: is not a schedule/),
    'WAREHOUSE_CLIENTS_FILE: 0.baseUrl: must be an http or https address',
  ]);
  expect(await (await ask('/metrics', 'text/plain')).text()).toMatch(/^fulfilment_settings_refused 1$/m);
  await waitFor('the status page', async () => (await (await ask('/')).text()).includes('settings_refused'));
  // The former settings stay in use, also after a signal.
  worker.kill('SIGHUP');
  await waitForEvent(worker, 'settings_refused', 2);
  await sandbox.seed(2, { client: 'north' });
  await waitFor('the polls', async () => (await countShipments('north')) === 2);

  folder.clients(sandbox.url, 'north', 'south');
  folder.settings({ SCHEDULE_PULL_SHIPMENTS: '2s', ADMIN_TOKEN: 'b'.repeat(40), LOOKBACK_DAYS: '9' });
  await waitFor('both changes', () => eventsOf(worker, 'settings_reloaded').length > 0);
  expect(eventsOf(worker, 'settings_need_restart').map(({ settings }) => settings)).toEqual([['ADMIN_TOKEN']]);
  await waitFor('no problem but the restart', async () => {
    const page = await (await ask('/')).text();
    return page.includes('settings_restart') && !page.includes('settings_refused');
  });
  const metrics = await (await ask('/metrics', 'text/plain')).text();
  expect(metrics).toMatch(/^fulfilment_settings_refused 0$/m);
  expect(metrics).toMatch(/^fulfilment_settings_need_restart 1$/m);
  expect(metrics).toMatch(/^fulfilment_lookback_days 9$/m);
  await waitFor('the pages to know the client', async () => (await (await ask('/schedules')).text()).includes('south'));
  expect(worker.output).not.toContain('s3cret');
  await stop(worker);
});

describe('a file is noticed', () => {
  test('when links lead to another folder, as in a volume of Kubernetes, and when a secret changes', async () => {
    const [sandbox, folder] = [await startSandbox(), makeFolder()];
    const client = (key: string) => ({
      key,
      baseUrl: sandbox.url.href,
      username: key,
      passwordFile: folder.file('password'),
    });
    folder.volume({ 'clients.json': JSON.stringify([client('north')]), password: 'north', 'settings.env': '' });
    const worker = processes.cli(['worker'], makeEnv(folder, { SCHEDULE_PULL_SHIPMENTS: '1s' }));
    await worker.line('worker_started');
    folder.volume({ 'clients.json': JSON.stringify([client('north')]), password: 'other', 'settings.env': '' });
    expect((await waitForEvent(worker, 'settings_reloaded')).changes).toEqual(['password of client north']);
    await worker.line('credentials_refused');
    folder.volume({
      'clients.json': JSON.stringify([client('north')]),
      password: 'north\n',
      'settings.env': 'REQUESTS_PER_SECOND=50\nSCHEDULE_PUSH_OUTBOX=off\n',
    });
    expect((await waitForEvent(worker, 'settings_reloaded', 2)).changes).toEqual([
      'password of client north',
      'push-outbox 15s -> off',
      'REQUESTS_PER_SECOND unset -> 50',
    ]);
    // The hold of the refused password ends at once.
    await sandbox.seed(2, { client: 'north' });
    await waitFor('the polls', async () => (await countShipments('north')) === 2);
    await insertOrder('north', 'SO-1');
    folder.volume({
      'clients.json': JSON.stringify([client('north')]),
      password: 'north',
      'settings.env': 'PUSH_MAX_AGE=1h',
    });
    expect((await waitForEvent(worker, 'settings_reloaded', 3)).changes).toEqual([
      'push-outbox off -> 15s',
      'REQUESTS_PER_SECOND 50 -> unset',
      'PUSH_MAX_AGE 3d -> 1h',
    ]);
    await waitFor('the order', async () => (await readStatus('SO-1')) === 'done');
    await stop(worker);
  });
});

test('a password that changes while rows are pushed loses no row and doubles none', async () => {
  const [sandbox, folder] = [await processes.sandbox(), makeFolder()];
  const service = await startRotatingService(sandbox.url);
  try {
    folder.replace('password', 'default\n');
    await sandbox.faults({ operation: 'v3.orders.create', effect: { delayMs: 100 } });
    const env = {
      DATABASE_URL: database.url,
      WAREHOUSE_BASE_URL: service.url.href,
      WAREHOUSE_USERNAME: 'default',
      WAREHOUSE_PASSWORD_FILE: folder.file('password'),
      PUSH_CONCURRENCY: '4',
      ADMIN_PORT: '0',
    };
    const workers = [processes.cli(['worker'], env), processes.cli(['worker'], env)] as const;
    await database.query(
      `insert into fulfilment.outbox (kind, reference, payload)
      select 'order.create', 'SO-' || n, jsonb_set($1, '{externalOrderNumber}', to_jsonb('SO-' || n))
      from generate_series(1, 300) n`,
      [orderPayload('SO-1')],
    );
    const count = async (status: string) =>
      (await database.query('select from fulfilment.outbox where status = $1', [status])).length;
    for (const password of ['second', 'third']) {
      const done = await count('done');
      await waitFor('some rows', async () => (await count('done')) >= done + 40);
      service.rotate(password);
      const refused = service.refused();
      await waitFor('a refusal', () => service.refused() > refused);
      folder.replace('password', password);
      // One of the workers is told, the other one notices it.
      workers[0].kill('SIGHUP');
    }
    await waitFor('all rows', async () => (await count('done')) === 300);
    for (const worker of workers) {
      const changes = eventsOf(worker, 'settings_reloaded').flatMap((event) => event.changes ?? []);
      expect(new Set(changes)).toEqual(new Set(['password of client default']));
      await stop(worker);
    }
    const created = (await sandbox.requests()).filter(({ operation }) => operation === 'v3.orders.create');
    expect(created).toHaveLength(300);
    const attempts = await database.query('select from fulfilment.outbox where attempts <> 1');
    expect(attempts).toEqual([]);
  } finally {
    await service.close();
  }
});

/** Returns SQL that changes a setting of this test's database. */
const alterDatabase = (change: string) =>
  `do $$ begin execute format('alter database %I ${change}', current_database()); end $$`;

test('SIGHUP ends no worker that starts or stops, and settings of meanwhile are used', async () => {
  const [sandbox, folder] = [await startSandbox(), makeFolder()];
  await sandbox.seed(1, { client: 'south' });
  folder.clients(sandbox.url, 'north');
  folder.settings({ SCHEDULE_PULL_SHIPMENTS: '1s' });
  await database.query(alterDatabase('set default_transaction_read_only = on'));
  try {
    const worker = processes.cli(['worker'], makeEnv(folder));
    await worker.line('boot_waits');
    folder.clients(sandbox.url, 'north', 'south');
    worker.kill('SIGHUP');
    expect(await waitForEvent(worker, 'settings_reloaded')).toMatchObject({ cause: 'SIGHUP' });
    await database.query(alterDatabase('reset default_transaction_read_only'));
    await waitFor('the client that was added during the start', async () => (await countShipments('south')) === 1);
    await sandbox.faults({ operation: 'v3.orders.create', effect: { delayMs: 1_500 } });
    const place = await sandbox.lastPlace();
    await insertOrder('north', 'SO-1');
    await waitFor('an order under way', async () =>
      (await sandbox.requests(place)).some(({ operation }) => operation === 'v3.orders.create'),
    );
    worker.kill('SIGTERM');
    await worker.line('worker_stopping');
    worker.kill('SIGHUP');
    expect(await worker.ended).toEqual({ code: 0, signal: null });
    expect(worker.output).toContain('worker_stopped');
    expect(await readStatus('SO-1')).toBe('done');
  } finally {
    await database.query(alterDatabase('reset default_transaction_read_only'));
  }
});

test('doctor says what would change at the running workers, without secrets', async () => {
  const [sandbox, folder] = [await startSandbox(), makeFolder()];
  folder.clients(sandbox.url, 'north');
  folder.settings({ SCHEDULE_PULL_SHIPMENTS: '1s' });
  const env = makeEnv(folder, { SCHEDULE_PULL_ORDERS: '1h' });
  const doctor = async (more: Record<string, string> = {}) => {
    const { output } = await runCommand(['doctor', '--json'], { ...env, ...more });
    const findings = JSON.parse(output) as { check: string; state: string; found: string; remedy: string | null }[];
    return findings
      .filter(({ check }) => check === 'reload')
      .map(({ state, found, remedy }) => ({ state, found, remedy }));
  };
  expect(await doctor()).toMatchObject([{ state: 'ok', found: 'no worker is running' }]);
  const worker = processes.cli(['worker'], env);
  await worker.line('worker_started');
  const noted = 'select from sync.worker_settings';
  await waitFor('its settings', async () => (await database.query(noted)).length === 1);
  expect(await doctor()).toMatchObject([
    { state: 'ok', found: 'the running worker uses these settings; nothing would change' },
  ]);
  // Other files of the same form, which the worker does not watch.
  const other = makeFolder();
  const clients = ['north', 'south'].map((key) => {
    return { key, baseUrl: sandbox.url.href, username: key, password: `s3cret-${key}`, timeZone: 'Europe/Paris' };
  });
  other.replace('clients.json', JSON.stringify(clients));
  other.settings({ SCHEDULE_PULL_SHIPMENTS: '5s', HTTP_TIMEOUT_MS: '5000' });
  const files = { WAREHOUSE_CLIENTS_FILE: other.file('clients.json'), SETTINGS_FILE: other.file('settings.env') };
  const name = expect.stringContaining(`:${worker.child.pid}: would change`);
  const found = await doctor(files);
  expect(found).toMatchObject([
    { state: 'warn', found: name, remedy: expect.stringContaining('within seconds') },
    { state: 'warn', found: expect.stringMatching(/only with a restart: HTTP_TIMEOUT_MS$/) },
  ]);
  expect(found[0]?.found).toMatch(
    /: client south added; password and time zone of client north; pull-shipments 1s -> 5s$/,
  );
  expect(JSON.stringify(found)).not.toContain('s3cret');
  expect(await doctor({ SCHEDULE_PULL_ORDERS: '2h' })).toMatchObject([
    {
      found: expect.stringMatching(/would change: pull-orders 1h -> 2h$/),
      remedy: expect.stringMatching(/environment/),
    },
  ]);
  const [stored] = await database.query<{ text: string }>('select settings::text as text from sync.worker_settings');
  expect(stored?.text).not.toMatch(/north"[^}]*"password": "north"/);
  folder.replace('clients.json', '[');
  await waitForEvent(worker, 'settings_refused');
  const refused = `select from sync.worker_settings where cardinality(refused) > 0`;
  await waitFor('the note of it', async () => (await database.query(refused)).length === 1);
  expect(await doctor({ WAREHOUSE_CLIENTS_FILE: files.WAREHOUSE_CLIENTS_FILE })).toMatchObject([
    { state: 'warn', found: expect.stringMatching(/refused changed files .*clients\.json is not valid JSON/) },
    { state: 'warn', found: expect.stringContaining('client south added') },
  ]);
  await stop(worker);
});
