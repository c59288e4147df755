import { afterEach, expect, test, vi } from 'vitest';
import { StoppedError } from '../../../src/core/errors.ts';
import { silentLogger } from '../../../src/core/logger.ts';
import { openListener } from '../../../src/db/connect.ts';
import { createLogger } from '../../../src/operate/logging/create-logger.ts';
import type { TaskQueue } from '../../../src/schedule/backend.ts';
import type { Jobs } from '../../../src/schedule/job.ts';
import { openQueueBackend } from '../../../src/schedule/open-queue.ts';
import { pause, type RunContext } from '../../../src/schedule/run.ts';
import { Schedules } from '../../../src/schedule/schedules.ts';
import { readDueRuns } from '../../../src/schedule/sql/start-runs.ts';
import { DueRuns } from '../../../src/schedule/start-due.ts';
import { useDatabase } from '../../helpers/database.ts';
import { done, makeConfig, runInProcess, usePuller, withDueRuns } from '../../helpers/puller.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';
import { insertHealth } from '../../helpers/service-health.ts';
import { waitFor } from '../../helpers/wait.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], quiet);
const pull = usePuller(database, sandbox);
const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

/** Does what a worker with these settings does at its start. */
const prepare = (env: Record<string, string>) =>
  runInProcess(makeConfig(database, sandbox, env), database, (deps) =>
    new Schedules(deps, noQueue).prepare(),
  );
/** The queue of schedules that are only prepared. */
const noQueue = new Proxy({} as TaskQueue, {
  get: () => {
    throw new Error('the queue was used');
  },
});
const readMinutesUntilDue = async (job: string) =>
  (
    await database.query<{ minutes: number }>(
      `select extract(epoch from next_at - now())::float8 / 60 as minutes from sync.jobs where job = $1`,
      [job],
    )
  )[0]?.minutes;

const readPlans = () => database.query('select job, next_at, soon_at from sync.jobs order by job');

test('a job is due again after it was switched off and on', async () => {
  await prepare({ SCHEDULE_TRACK_TRACE: 'off' });
  expect(await readMinutesUntilDue('track-trace')).toBe(Number.POSITIVE_INFINITY);
  await prepare({ SCHEDULE_TRACK_TRACE: '1h' });
  expect(await readMinutesUntilDue('track-trace')).toBeLessThan(67);
});

test('a shorter schedule takes effect at the next start; a plain restart changes nothing', async () => {
  const day = { SCHEDULE_PULL_SHIPMENTS: '1d', SCHEDULE_TRACK_TRACE: '1d' };
  await prepare(day);
  await database.query(`update sync.jobs set next_at = now() + interval '20 hours'`);
  await prepare({ SCHEDULE_PULL_SHIPMENTS: '10m', SCHEDULE_TRACK_TRACE: '1h' });
  expect(await readMinutesUntilDue('pull-shipments')).toBeLessThan(11.1);
  expect(await readMinutesUntilDue('track-trace')).toBeLessThan(61.1);
  const before = await readPlans();
  await prepare({ SCHEDULE_PULL_SHIPMENTS: '10m', SCHEDULE_TRACK_TRACE: '1h' });
  expect(await readPlans()).toEqual(before);
});

test('a command changes no schedule, whatever the settings of its shell are', async () => {
  await prepare({ SCHEDULE_REFRESH_SETTINGS: '1d' });
  await database.query(`update sync.jobs set next_at = now() + interval '3 hours'`);
  const before = await readPlans();
  done(await pull('refresh-settings', { env: { SCHEDULE_REFRESH_SETTINGS: '30m' } }));
  done(await pull('pull-shipments', { env: { SCHEDULE_PULL_SHIPMENTS: '1h' } }));
  expect(await readPlans()).toEqual(before);
});

test('a restarted worker tries refused credentials at once', async () => {
  await prepare({});
  await insertHealth(database, { code: 'credentials_refused', untilInMs: 900_000 });
  await prepare({});
  expect(await database.count('sync.service_health where next_at <= now()')).toBe(1);
});

/** Opens the queue in Postgres. */
async function openQueue() {
  const { backend, close } = await openQueueBackend(
    { REDIS_URL: undefined },
    database.url,
    silentLogger,
  );
  const queue = backend.queue();
  closers.push(() => queue.close(), close);
  queue.on('error', () => undefined);
  await queue.waitUntilReady();
  return queue;
}

test('every job with a schedule has a scheduler of its name; the repair of an emptied queue is in the audit', async () => {
  const queue = await openQueue();
  const logged: string[] = [];
  const log = createLogger('info', { write: (line: string) => logged.push(line) });
  const align = (env: Record<string, string>) =>
    runInProcess(makeConfig(database, sandbox, env), database, (deps) =>
      new Schedules({ ...deps, log }, queue).align(),
    );
  const countRepairs = () => database.count(`sync.audit where action = 'schedulers_set'`);
  await align({});
  const schedulers = await queue.getJobSchedulers(0, -1);
  expect(schedulers.map(({ key, every }) => `${key} ${every}`).sort()).toEqual([
    'prune 86400000',
    'pull-inbound-packing-slips 300000',
    'pull-inbounds 300000',
    'pull-orders 600000',
    'pull-parcels 600000',
    'pull-return-items 300000',
    'pull-shipments 30000',
    'push-outbox 15000',
    'reconcile 86400000',
    'refresh-settings 86400000',
    'track-trace 3600000',
  ]);
  await align({ SCHEDULE_PULL_SHIPMENTS: '30s' });
  expect(await countRepairs()).toBe(1);
  await queue.removeJobScheduler('pull-orders');
  await align({ SCHEDULE_PULL_SHIPMENTS: '30s' });
  expect(await countRepairs()).toBe(2);
  expect(logged.map((line) => (JSON.parse(line) as { missing: string[] }).missing.length)).toEqual([
    11, 1,
  ]);
});

test('a worker that starts makes pull-parcels due at once if look-ups wait for it', async () => {
  const isDue = () =>
    database.count(`sync.jobs where job = 'pull-parcels' and next_at <= sync.clock()`);
  await prepare({});
  expect(await isDue()).toBe(0);
  await database.query('delete from sync.jobs');
  await database.query(
    `insert into sync.waiting_reads (client, resource, id, reason, next_at)
     values ('default', 'parcels', 1, 'shipped', sync.clock())`,
  );
  await prepare({ SCHEDULE_PULL_PARCELS: 'off' });
  expect(await isDue()).toBe(0);
  await prepare({});
  expect(await isDue()).toBe(1);
});

/** Calls `work` with the runs of a worker. Waits for their ends. */
const withRuns = (work: (runs: DueRuns) => Promise<unknown>, env: Record<string, string> = {}) =>
  withDueRuns(makeConfig(database, sandbox, env), database, work);
const readStarted = async () =>
  (
    await database.query<{ job: string }>(
      'select job from sync.jobs where last_started_at is not null order by job',
    )
  ).map(({ job }) => job);

test('a firing starts the due run of its job and no other, also if it comes a little early', async () => {
  await prepare({});
  await database.query(`update sync.jobs set next_at = now()`);
  await withRuns((runs) => runs.fire('pull-orders'));
  expect(await readStarted()).toEqual(['pull-orders']);
  await database.query(`update sync.jobs set next_at = now() + interval '400 ms'`);
  await withRuns((runs) => runs.fire('pull-inbounds'));
  expect(await readStarted()).toEqual(['pull-inbounds', 'pull-orders']);
  await withRuns((runs) => runs.fire('pull-shipments'), { SCHEDULE_PULL_SHIPMENTS: 'off' });
  await database.query(`update sync.jobs set next_at = now() + interval '1 hour'`);
  await withRuns((runs) => runs.fire('prune'));
  expect(await readStarted()).toHaveLength(2);
});

test('a firing of push-outbox wakes the pushers of all workers', async () => {
  let heard = 0;
  const listener = openListener(database.url, 'fulfilment_outbox', () => heard++, silentLogger);
  closers.push(() => listener.close());
  await waitFor('the listener', () => heard === 1);
  await withRuns((runs) => runs.fire('push-outbox'));
  await waitFor('the notification', () => heard === 2);
});

test('due runs begin without the queue, in two workers, and never twice', async () => {
  await prepare({});
  await database.query(`
    update sync.jobs set next_at = now() + case when job like 'pull-%' then '0' else '1 hour' end::interval`);
  const sweep = () =>
    withRuns(async (runs) => {
      await Promise.all([runs.sweep(), runs.startDue(), runs.startDue(['pull-orders'])]);
    });
  await Promise.all([sweep(), sweep()]);
  expect(await database.count(`sync.jobs where last_outcome = 'done'`)).toBe(6);
  expect(await database.count('sync.jobs where skips > 0')).toBe(0);
  expect(await database.count('sync.leases where key > 1')).toBe(0);
});

test('the run of a lost worker begins again at the next sweep', async () => {
  await prepare({});
  await database.query(`
    update sync.jobs set next_at = now() + interval '1 hour';
    update sync.leases set holder = 'lost', expires_at = now() where name = 'pull-orders'`);
  await withRuns((runs) => runs.sweep());
  expect(await readStarted()).toEqual(['pull-orders']);
});

test('a sweep starts what a clock that jumped ahead and back would keep waiting', async () => {
  await prepare({});
  await database.query(`
    update sync.jobs set next_at = now() + interval '1 day',
      last_finished_at = case job when 'pull-orders' then now() + interval '1 day' end;
    update sync.leases set holder = 'lost', expires_at = now() + interval '1 day' where name = 'pull-inbounds'`);
  await insertHealth(database, { code: 'no_answer', sendWindow: 0, untilInMs: 86_400_000 });
  await withRuns((runs) => runs.sweep());
  expect(await readStarted()).toEqual(['pull-inbounds', 'pull-orders']);
});

/**
 * Calls `work` with the runs of a worker of several clients. Each run does `run`. Then stops them.
 */
async function withClients(
  keys: readonly string[],
  run: (context: RunContext) => Promise<void>,
  work: (runs: DueRuns) => Promise<unknown>,
) {
  const stop = new AbortController();
  await runInProcess(makeConfig(database, sandbox), database, async (deps, client) => {
    const clients = keys.map((key) => ({ ...client, key }));
    const warehouse = deps.warehouses.get(client.key);
    if (warehouse === undefined) throw new Error('no service');
    const jobs = Object.fromEntries(
      Object.entries(deps.jobs).map(([name, job]) => [name, { ...job, run }]),
    ) as unknown as Jobs;
    const all = {
      ...{ ...deps, jobs, config: { ...deps.config, clients } },
      warehouses: new Map(keys.map((key) => [key, warehouse])),
    };

    await new Schedules(all, noQueue).prepare();
    const runs = new DueRuns(all, stop.signal, () => undefined);
    try {
      await work(runs);
    } finally {
      stop.abort(new StoppedError());
      await runs.ended();
    }
  });
}

test('a run that has had its turn gives its place to a due run, and continues behind it', async () => {
  const now = performance.now.bind(performance);
  let aheadMs = 0;
  vi.spyOn(performance, 'now').mockImplementation(() => now() + aheadMs);
  const started: string[] = [];
  const run = async ({ run: { lease }, signal, endTurn }: RunContext) => {
    started.push(lease.name);
    while (lease.name !== 'pull-return-items') {
      await pause(signal, 20);
      endTurn();
    }
  };
  const readLeased = () =>
    database.query('select name from sync.leases where holder is not null order by name');
  const readEnds = () =>
    database.query(
      `select job, last_outcome from sync.jobs where last_outcome is not null order by job`,
    );

  // One of several clients gets two places.
  await withClients(['default', 'other'], run, async (runs) => {
    await database.query(`
      update sync.jobs set next_at = now() + case when client = 'other' then '1 hour'
        when job = 'pull-orders' then '-3 s' when job = 'pull-inbounds' then '-2 s'
        when job = 'pull-return-items' then '-1 s' else '1 hour' end::interval`);
    await runs.sweep();
    expect(await readLeased()).toEqual([{ name: 'pull-inbounds' }, { name: 'pull-orders' }]);
    await waitFor('two runs', () => started.length === 2);

    aheadMs = 31_000;
    await waitFor('the third run', () => started.includes('pull-return-items'));
    await waitFor('the ends of all', async () => (await readEnds()).length === 3);
    // The clock of this process is ahead, and so are their due times.
    await database.query(`update sync.jobs set next_at = now() where last_outcome = 'stopped'`);
    await runs.sweep();
    await waitFor('both to continue', () => started.length === 5);
  }).finally(() => vi.restoreAllMocks());
  expect(await readEnds()).toEqual([
    { job: 'pull-inbounds', last_outcome: 'stopped' },
    { job: 'pull-orders', last_outcome: 'stopped' },
    { job: 'pull-return-items', last_outcome: 'done' },
  ]);
});

test('neither held clients, long runs nor those of another job hide the due run of a client', async () => {
  const groups = ['held', 'long', 'prune'];
  const many = groups.flatMap((group) => Array.from({ length: 25 }, (_, n) => `${group}-${n}`));
  const clients = [...many, 'other'].map((client) => ({ client, identity: 'a' }));
  const names = clients.map(({ client }) => client);
  await database.query(
    `insert into sync.clients (client, identity, base_url)
     select client, 'a', 'http://a.test/' from unnest($1::text[]) as client`,
    [names],
  );
  await database.query(
    `insert into sync.jobs (client, job, next_at, last_success_at)
     select client, case when client like 'prune%' then 'prune' else 'pull-orders' end,
       now() - case client when 'other' then '1 s' else '1 hour' end::interval,
       case when client not like 'long%' then now() end
     from unnest($1::text[]) as client`,
    [names],
  );
  await database.query('insert into sync.leases (client, name) select client, job from sync.jobs');
  for (const client of names.filter((name) => name.startsWith('held')))
    await insertHealth(database, { client, code: 'no_answer', sendWindow: 0 });

  const filter = { jobs: ['pull-orders', 'prune'], clients, worker: 'w', local: [], aheadMs: 0 };
  const due = await readDueRuns(database.db, filter);
  const count = (group: string) => due.filter(({ client }) => client.startsWith(group)).length;
  expect([...groups, 'other'].map(count)).toEqual([20, 20, 20, 1]);
});

test('a locked health of one client does not keep the runs of others from beginning', async () => {
  const started: string[] = [];
  const run = async ({ client }: RunContext) => {
    started.push(client);
  };
  await withClients(['default', 'other'], run, async (runs) => {
    await database.query(
      `update sync.jobs set next_at = now() + case job when 'pull-orders' then '0' else '1 hour' end::interval`,
    );
    await insertHealth(database, { code: 'credentials_refused', sendWindow: 0 });
    await database.db.transaction().execute(async (trx) => {
      await trx.selectFrom('sync.service_health').selectAll().forUpdate().execute();
      await runs.startDue();
      await waitFor('the run of the other client', () => started.includes('other'));
    });
    expect(started).toEqual(['other']);
    await runs.startDue();
    await waitFor('the run after the question', () => started.includes('default'));
  });
});
