import { text } from 'node:stream/consumers';
import { Webhook } from 'standardwebhooks';
import { afterEach, expect, test, vi } from 'vitest';
import { makeFixedPause } from '../../../src/core/backoff.ts';
import { silentLogger } from '../../../src/core/logger.ts';
import { connectForWriting } from '../../../src/db/connect.ts';
import { startAlerter as start } from '../../../src/operate/alerts/alerter.ts';
import type { PostBody } from '../../../src/operate/alerts/decide-alerts.ts';
import { Deliverer } from '../../../src/operate/deliveries/deliverer.ts';
import type { Problem } from '../../../src/operate/health/problem.ts';
import { findProblems } from '../../../src/operate/health/problems.ts';
import { readCurrentState } from '../../../src/operate/health/state.ts';
import { createLogger } from '../../../src/operate/logging/create-logger.ts';
import { storeAlertChecks } from '../../../src/operate/sql/open-alerts.ts';
import { alertReceiver } from '../../../src/operate/sql/receivers.ts';
import { takeTurns } from '../../../src/schedule/sql/turns.ts';
import { openDispatcher } from '../../../src/service/transport/dispatcher.ts';
import { setReadOnly, useDatabase } from '../../helpers/database.ts';
import { useProcesses, workerEnv } from '../../helpers/processes/processes.ts';
import { runCommand } from '../../helpers/processes/run-command.ts';
import { useServices } from '../../helpers/processes/service.ts';
import { done, makeConfig, usePuller } from '../../helpers/puller.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';
import { waitFor } from '../../helpers/wait.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], quiet);
const pull = usePuller(database, sandbox);
const services = useServices();
const processes = useProcesses();
const closers: (() => Promise<unknown>)[] = [];
/** Since when the worker of a test meets a full disk. */
let diskFullSince: Date | null = null;
afterEach(async () => {
  diskFullSince = null;
  await Promise.all(closers.splice(0).map((close) => close()));
  vi.restoreAllMocks();
});

const secret = `whsec_${Buffer.alloc(24, 7).toString('base64')}`;
const times = { tickMs: 20, checkMs: 100, holdMs: 150 };
async function insertDeadRow() {
  await database.query(
    `insert into fulfilment.outbox (kind, reference, payload) values ('no.such', 'A', '{}')`,
  );
  await database.query(
    `update fulfilment.outbox set status = 'dead', next_attempt_at = null, finished_at = now(), last_error = 'no'`,
  );
}

async function countChecks() {
  const [turns] = await database.query("select sum(taken) from sync.turns where name = 'alerts'");
  return Number(turns?.sum);
}

/**
 * Starts a receiver that checks the signature of each post. A slow one answers after two further
 * checks.
 * @param refuse returns a status to refuse with, by the number of the attempt
 */
async function startReceiver(
  refuse: (number: number) => number | null = () => null,
  { isSlow = false } = {},
) {
  const attempts: { readonly id: string; readonly taken: boolean; readonly body: PostBody }[] = [];
  const { url, requests } = await services.start(async (request, response) => {
    const raw = await text(request);
    const headers = request.headers as Record<string, string>;
    const body = new Webhook(secret).verify(raw, headers) as PostBody;
    const status = refuse(attempts.length);
    attempts.push({ id: String(headers['webhook-id']), taken: status === null, body });
    const checks = isSlow ? await countChecks() : 0;
    if (isSlow) await waitFor('two checks', async () => (await countChecks()) >= checks + 2);
    response.writeHead(status ?? 204, status === 307 ? { location: '/elsewhere' } : {}).end();
  });
  const listTaken = () => attempts.filter(({ taken }) => taken).map(({ body }) => body);
  return { url: new URL('/services/T0/s3cret', url), attempts, requests, listTaken };
}

/** Starts what a worker posts alerts with, with short times and connections of its own. */
async function startAlerter(url: URL, { maxAgeMs = 60_000 } = {}) {
  const lines: string[] = [];
  const config = makeConfig(database, sandbox);
  const dispatcher = openDispatcher(config, 10_000);
  const timeoutMs = 20_000;
  const { db, close } = connectForWriting(database.url, silentLogger, { name: 'alerts' });
  const log = createLogger('info', { write: (line) => void lines.push(line) });
  const webhook = { url: url.href, secret, dispatcher, timeoutMs };
  const all = { kind: 'alert', types: null, clients: null, personalData: false } as const;
  const receivers = [{ ...all, name: alertReceiver, url: url.href, secret }];
  const posting = { tickMs: 20, maxAgeMs, minTries: 10, pause: makeFixedPause(30) };
  const deliverer = new Deliverer({ db, receivers, dispatcher, timeoutMs, log, times: posting });
  await deliverer.start();
  const options = { db, config, log, webhook, times, diskFullSince: () => diskFullSince };
  const alerter = start(options);
  closers.push(async () => {
    await Promise.all([alerter.close(), deliverer.close()]);
    await Promise.all([dispatcher.destroy(), close()]);
  });
  return lines;
}

test('a service that answers 503 to everything is one problem and one alert, which ends when it answers again', async () => {
  const receiver = await startReceiver((number) => [500, 307, 429][number] ?? null, {
    isSlow: true,
  });
  const logs = [await startAlerter(receiver.url), await startAlerter(receiver.url)];
  await sandbox.faults({ operation: '*', effect: { status: 503, html: true } });
  const jobs = ['pull-shipments', 'pull-orders', 'pull-inbounds', 'pull-return-items'] as const;
  for (const job of jobs) expect((await pull(job)).status).toBe('failed');
  await waitFor('the first post', () => receiver.listTaken().length > 0);
  const [began] = receiver.listTaken();
  expect(began).toMatchObject({
    type: 'problem.began',
    data: { severity: 'warn', code: 'service_away', client: 'default' },
    text: expect.stringContaining(
      'fulfilment-sync: Warning: default: the service has answered 503 since ',
    ),
  });
  await sandbox.clearFaults();
  for (const job of jobs) done(await pull(job));
  await waitFor('the end', () => receiver.listTaken().length > 1);
  await waitFor('no open alert and no waiting post', async () => {
    const open = await database.query(`
      select from sync.alerts union all select from sync.deliveries where status = 'waiting'`);
    return open.length === 0;
  });
  expect(receiver.listTaken().map(({ type, data }) => [type, data.code, data.id])).toEqual([
    ['problem.began', 'service_away', began?.data.id],
    ['problem.ended', 'service_away', began?.data.id],
  ]);
  // All attempts of a post have one number, so that a receiver can drop duplicates.
  expect(new Set(receiver.attempts.slice(0, 4).map(({ id }) => id)).size).toBe(1);
  expect(receiver.requests.some(({ path }) => path === '/elsewhere')).toBe(false);
  expect(logs.flat().join()).not.toContain('s3cret');
});

/** What goes wrong, made on purpose. */
const causes = {
  clock_wrong: async () => {
    const now = Date.now.bind(Date);
    vi.spyOn(Date, 'now').mockImplementation(() => now() + 200_000);
  },
  database_full: async () => {
    await sandbox.seed(2);
    await database.query(`
      create function public.fill() returns trigger language plpgsql as $$
      begin raise disk_full using message = 'no room'; end $$;
      create trigger fill before insert on fulfilment.shipments execute function public.fill()`);
    await pull('pull-shipments');
    diskFullSince = new Date();
  },
  queue_away: async () => {
    await pull('pull-shipments');
    await database.query(`
      update sync.clients set served_at = now(), queue_away_since = now(), queue_error = 'connect ECONNREFUSED'`);
  },
  client_parked: async () => {
    await pull('pull-shipments');
    await pull('pull-orders', { env: { WAREHOUSE_USERNAME: 'another' } });
  },
  worker_lost: async () => {
    await pull('pull-shipments');
    await database.query(
      `insert into fulfilment.outbox (kind, reference, payload) values ('order.create', 'A', '{}')`,
    );
    await database.query(`update sync.clients set served_at = now() - interval '5 minutes'`);
  },
  credentials_refused: () => pull('pull-shipments', { env: { WAREHOUSE_PASSWORD: 'wrong' } }),
  operation_failing: async () => {
    const effect = { status: 503, html: true };
    await sandbox.faults({ operation: 'v3.shipments.list', effect });
    for (const job of ['pull-shipments', 'pull-orders', 'pull-shipments'] as const) await pull(job);
  },
};

test.each(Object.entries(causes))('%s: what is stored makes one problem', async (code, cause) => {
  await cause();
  const config = makeConfig(database, sandbox);
  const found = findProblems(await readCurrentState(database.db, config, diskFullSince), config);
  expect(found.filter((one) => one.severity !== 'note').map((one) => one.code)).toEqual([code]);
});

test('a post that nobody takes is shown, logged, and given up when it is too old', async () => {
  const receiver = await startReceiver(() => 404);
  await insertDeadRow();
  const lines = await startAlerter(receiver.url, { maxAgeMs: 1_500 });
  await waitFor('the post to be given up', async () => {
    const rows = await database.query(`select 1 from sync.deliveries where status = 'dead'`);
    return rows.length > 0;
  });
  await waitFor('the log', () => lines.some((line) => line.includes('alert_given_up')));
  expect(lines.join()).toContain('the receiver answered 404');
  const { output } = await runCommand(['status'], workerEnv(database.url, sandbox));
  expect(output).toContain(
    '1 alert was given up today: the receiver does not take it: the receiver answered 404',
  );
});

test('a worker posts a problem that has lasted long enough, and its receiver reads it', async () => {
  const receiver = await startReceiver();
  await insertDeadRow();
  await database.query(`
    insert into sync.alerts (id, scope, code, client, subject, detail, severity, text, since)
    values (gen_random_uuid(), '', 'outbox_dead', 'default', 'default', '', 'bad', 'old', now() - interval '1 minute')`);
  const env = { ALERT_WEBHOOK_URL: receiver.url.href, ALERT_WEBHOOK_SECRET: secret };
  const worker = processes.cli(['worker'], workerEnv(database.url, sandbox, env));
  await waitFor('the post', () => receiver.listTaken().length > 0);
  expect(receiver.listTaken()).toMatchObject([
    { data: { code: 'outbox_dead', text: '1 row is dead and blocks its lane' } },
  ]);
  expect(worker.output).not.toContain('s3cret');
});

test('a worker whose runs cannot be recorded because the disk is full says so, until it refuses none', async () => {
  const worker = processes.cli(
    ['worker'],
    workerEnv(database.url, sandbox, { SCHEDULE_PULL_SHIPMENTS: '2s' }),
  );
  const { port } = JSON.parse(await worker.line('admin_listening')) as { port: number };
  await worker.line('worker_started');
  await database.query(`
    create function public.fill() returns trigger language plpgsql as $$
    begin raise disk_full using message = 'no room'; end $$;
    create trigger fill before update on sync.jobs for each row execute function public.fill()`);
  const readCodes = async () => {
    const answer = await fetch(`http://127.0.0.1:${port}/`, {
      headers: { accept: 'application/json' },
    });
    return ((await answer.json()) as { problems: Problem[] }).problems.map(({ code }) => code);
  };
  await waitFor('the problem', async () => (await readCodes()).includes('database_full'));
  await database.query('drop trigger fill on sync.jobs');
  await waitFor('its end', async () => !(await readCodes()).includes('database_full'));
});

test('a post of a worker that the receiver refuses holds no later one', async () => {
  const receiver = await startReceiver(() => 400);
  await startAlerter(receiver.url);
  const isPosted = (type: string) => () =>
    receiver.attempts.some(({ body }) => body.type === type && body.data.code === 'database_full');
  diskFullSince = new Date();
  await waitFor('its begin', isPosted('problem.began'));
  diskFullSince = null;
  await waitFor('its end', isPosted('problem.ended'));
});

test('a database that takes no writes is posted by the worker itself, until it takes them again', async () => {
  const receiver = await startReceiver();
  await startAlerter(receiver.url);
  await waitFor('a check', async () => (await countChecks()) > 0);
  await setReadOnly(database, 'on');
  await waitFor('its begin', () => receiver.listTaken().length === 1);
  await setReadOnly(database, 'off');
  await waitFor('its end', () => receiver.listTaken().length === 2);
  expect(receiver.listTaken().map(({ type, data }) => [type, data.code, data.severity])).toEqual([
    ['problem.began', 'database_read_only', 'bad'],
    ['problem.ended', 'database_read_only', 'bad'],
  ]);
});

test('a check decides nothing while too many posts wait', async () => {
  const bounds = { alerts: 5, perClient: 5 };
  const decide = vi.fn(() => ({ kept: [], removed: [], posts: [] }));

  for (const posts of [0, 1]) {
    const checks = await takeTurns(database.db, { name: 'alerts', scopes: [`${posts}`] }, 60_000);
    await storeAlertChecks(database.db, checks, { ...bounds, posts }, decide);
  }

  expect(decide).toHaveBeenCalledOnce();
});
