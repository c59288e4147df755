import { afterEach, expect, test } from 'vitest';
import { silentLogger } from '../../../src/core/logger.ts';
import { openListener } from '../../../src/db/connect.ts';
import { openQueueBackend } from '../../../src/schedule/open-queue.ts';
import { Runs } from '../../../src/schedule/runs.ts';
import { Schedules } from '../../../src/schedule/schedules.ts';
import { useDatabase } from '../../helpers/database.ts';
import { done, makeConfig, runInProcess, usePuller } from '../../helpers/puller.ts';
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
    new Schedules(deps, new Map()).prepare(),
  );
const readMinutesUntilDue = async (job: string) =>
  (
    await database.query<{ minutes: number }>(
      `select extract(epoch from next_at - now())::float8 / 60 as minutes from sync.jobs where job = $1`,
      [job],
    )
  )[0]?.minutes;

test.each(['track-trace', 'pull-shipments', 'pull-stock'])(
  '%s is due again after it was switched off and on',
  async (job) => {
    const variable = `SCHEDULE_${job.toUpperCase().replaceAll('-', '_')}`;
    await prepare({ [variable]: 'off' });
    expect(await readMinutesUntilDue(job)).toBe(Number.POSITIVE_INFINITY);
    await prepare({ [variable]: '1h' });
    expect(await readMinutesUntilDue(job)).toBeLessThan(67);
  },
);

test('a job on request is due only when somebody requests it', async () => {
  await prepare({ SCHEDULE_RECONCILE: 'on-request' });
  expect(await readMinutesUntilDue('reconcile')).toBe(Number.POSITIVE_INFINITY);
  expect(await readMinutesUntilDue('backfill')).toBe(Number.POSITIVE_INFINITY);
});

test('a shorter schedule takes effect at the next start; a plain restart changes nothing', async () => {
  const day = { SCHEDULE_PULL_SHIPMENTS: '1d', SCHEDULE_TRACK_TRACE: '1d' };
  await prepare(day);
  await database.query(`update sync.jobs set next_at = now() + interval '20 hours'`);
  await prepare({ SCHEDULE_PULL_SHIPMENTS: '10m', SCHEDULE_TRACK_TRACE: '1h' });
  expect(await readMinutesUntilDue('pull-shipments')).toBeLessThan(11.1);
  expect(await readMinutesUntilDue('track-trace')).toBeLessThan(61.1);
  const before = await database.query('select job, next_at from sync.jobs order by job');
  await prepare({ SCHEDULE_PULL_SHIPMENTS: '10m', SCHEDULE_TRACK_TRACE: '1h' });
  expect(await database.query('select job, next_at from sync.jobs order by job')).toEqual(before);
});

test('a command changes no schedule, whatever the settings of its shell are', async () => {
  await prepare({ SCHEDULE_REFRESH_SETTINGS: '1d' });
  await database.query(`update sync.jobs set next_at = now() + interval '3 hours'`);
  const before = await database.query('select job, next_at, soon_at from sync.jobs order by job');
  done(await pull('refresh-settings', { env: { SCHEDULE_REFRESH_SETTINGS: '30m' } }));
  done(await pull('pull-shipments', { env: { SCHEDULE_PULL_SHIPMENTS: '1h' } }));
  expect(await database.query('select job, next_at, soon_at from sync.jobs order by job')).toEqual(
    before,
  );
});

test('a restarted worker tries refused credentials at once', async () => {
  await prepare({});
  await insertHealth(database, {
    ...{ code: 'credentials_refused', sendWindow: 0, untilInMs: 900_000 },
  });
  await prepare({});
  expect(await database.query('select next_at <= now() as over from sync.service_health')).toEqual([
    { over: true },
  ]);
});

/** Opens both queues in Postgres. */
async function openQueues() {
  const { backend, close } = await openQueueBackend(
    { REDIS_URL: undefined },
    database.url,
    silentLogger,
  );
  const queues = new Map((['poll', 'bulk'] as const).map((name) => [name, backend.queue(name)]));
  closers.push(...[...queues.values()].map((queue) => () => queue.close()), close);
  for (const queue of queues.values()) {
    queue.on('error', () => undefined);
    await queue.waitUntilReady();
  }
  return queues;
}

test('every job with a schedule has a scheduler of its name; the repair of an emptied queue is in the audit', async () => {
  const queues = await openQueues();
  const align = (env: Record<string, string>) =>
    runInProcess(makeConfig(database, sandbox, env), database, (deps) =>
      new Schedules(deps, queues).align(),
    );
  const readRepairs = async () =>
    (
      await database.query<{ detail: string }>(
        `select detail from sync.audit where action = 'schedulers_set' order by id`,
      )
    ).map(({ detail }) => detail.split(', ').length);
  await align({});
  const schedulers = await queues.get('poll')?.getJobSchedulers(0, -1);
  expect(schedulers?.map(({ key, every }) => `${key} ${every}`).sort()).toEqual([
    'prune 600000',
    'pull-inbound-packing-slips 300000',
    'pull-inbounds 300000',
    'pull-orders 600000',
    'pull-parcels 600000',
    'pull-return-items 300000',
    'pull-shipments 30000',
    'push-outbox 15000',
    'reconcile 600000',
    'refresh-settings 600000',
    'track-trace 600000',
  ]);
  expect(await readRepairs()).toEqual([11]);
  await align({ SCHEDULE_PULL_SHIPMENTS: '30s' });
  expect(await readRepairs()).toEqual([11]);
  await queues.get('poll')?.removeJobScheduler('pull-orders');
  await align({ SCHEDULE_PULL_SHIPMENTS: '30s' });
  expect(await readRepairs()).toEqual([11, 1]);
});

test('a worker that starts makes pull-parcels due at once if look-ups wait for it', async () => {
  const readDue = async () =>
    (
      await database.query<{ due: boolean }>(
        `select next_at <= sync.clock() as due from sync.jobs where job = 'pull-parcels'`,
      )
    ).map(({ due }) => due);
  await prepare({});
  expect(await readDue()).toEqual([false]);
  await database.query('delete from sync.jobs');
  await database.query(
    `insert into sync.waiting_reads (client, resource, id, reason, next_at)
     values ('default', 'parcels', 1, 'shipped', sync.clock())`,
  );
  await prepare({ SCHEDULE_PULL_PARCELS: 'off' });
  expect(await readDue()).toEqual([false]);
  await prepare({});
  expect(await readDue()).toEqual([true]);
});

test.each(['reconcile', 'prune', 'pull-shipments'] as const)(
  'a firing of %s queues the run that is due in 20 seconds',
  async (job) => {
    const queues = await openQueues();
    await runInProcess(
      makeConfig(database, sandbox, { SCHEDULE_PRUNE: '0 3 * * *' }),
      database,
      async (deps) => {
        const schedules = new Schedules(deps, queues);
        await schedules.prepare();
        await database.query(`update sync.jobs set next_at = now() + interval '20 seconds'`);
        await schedules.fire(job);
      },
    );
    const counts = await Promise.all([...queues.values()].map((queue) => queue.getJobCounts()));
    expect(counts.map(({ delayed }) => delayed)).toEqual(
      job === 'pull-shipments' ? [1, 0] : [0, 1],
    );
  },
);

test('a firing of push-outbox wakes the pushers of all workers', async () => {
  const heard: string[] = [];
  const { promise: listens, resolve } = Promise.withResolvers<void>();
  const listener = openListener(
    database.url,
    'fulfilment_outbox',
    (payload) => {
      heard.push(payload);
      resolve();
    },
    silentLogger,
  );
  closers.push(() => listener.close());
  await listens;
  heard.length = 0;
  await runInProcess(makeConfig(database, sandbox), database, (deps) =>
    new Schedules(deps, new Map()).fire('push-outbox'),
  );
  await waitFor('the notification', () => heard.length > 0);
});

test('overdue runs begin without the queue, and never twice at the same time', async () => {
  await runInProcess(makeConfig(database, sandbox), database, async (deps) => {
    const schedules = new Schedules(deps, new Map());
    await schedules.prepare();
    await database.query(
      `update sync.jobs set next_at = now() - interval '6 seconds' where job like 'pull-%'`,
    );
    const runs = new Runs(
      deps,
      (name) => schedules.fire(name),
      new AbortController().signal,
      () => undefined,
    );
    const due = await schedules.findOverdue();
    runs.start([...due, ...due]);
    await runs.ended();
    expect(await schedules.findOverdue()).toEqual([]);
  });
  expect(
    await database.query(`select job from sync.jobs where last_outcome = 'done' order by job`),
  ).toHaveLength(6);
  expect(await database.query('select job from sync.jobs where skips > 0')).toEqual([]);
});
