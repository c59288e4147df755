import { afterEach, expect, test } from 'vitest';
import { openQueueBackend } from '../../../src/app/deps/queue.ts';
import { silentLogger } from '../../../src/app/logging/logger.ts';
import { Schedules } from '../../../src/app/worker/schedules.ts';
import { useDatabase } from '../../helpers/database.ts';
import { makeConfig, runInProcess } from '../../helpers/puller.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';
import { waitFor } from '../../helpers/wait.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], quiet);
const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

/** Does what a worker with these settings does at its start. */
const prepare = (env: Record<string, string>) =>
  runInProcess(makeConfig(database, sandbox, env), database, (deps) => new Schedules(deps, new Map()).prepare());
const readMinutesUntilDue = async (job: string) =>
  (
    await database.query<{ minutes: number }>(
      `select extract(epoch from due_at - now())::float8 / 60 as minutes from sync.jobs where job = $1`,
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
  await database.query(`update sync.jobs set due_at = now() + interval '20 hours'`);
  await prepare({ SCHEDULE_PULL_SHIPMENTS: '10m', SCHEDULE_TRACK_TRACE: '1h' });
  expect(await readMinutesUntilDue('pull-shipments')).toBeLessThan(11.1);
  expect(await readMinutesUntilDue('track-trace')).toBeLessThan(61.1);
  const before = await database.query('select job, due_at from sync.jobs order by job');
  await prepare({ SCHEDULE_PULL_SHIPMENTS: '10m', SCHEDULE_TRACK_TRACE: '1h' });
  expect(await database.query('select job, due_at from sync.jobs order by job')).toEqual(before);
});

test('a restarted worker tries refused credentials at once', async () => {
  await prepare({});
  await database.query(`
    update sync.clients set hold_code = 'credentials_refused', hold_reason = 'x', hold_since = now(),
      hold_until = now() + interval '15 minutes'`);
  await prepare({});
  expect(await database.query('select hold_until <= now() as over from sync.clients')).toEqual([{ over: true }]);
});

test('the repair of an emptied queue is in the audit; a changed schedule is not', async () => {
  const backend = await openQueueBackend({ REDIS_URL: undefined }, database.url, silentLogger);
  const queues = new Map((['poll', 'bulk'] as const).map((name) => [name, backend.backend.queue(name)]));
  closers.push(...[...queues.values()].map((queue) => () => queue.close()), backend.close);
  for (const queue of queues.values()) {
    queue.on('error', () => undefined);
    await queue.waitUntilReady();
  }
  const align = (env: Record<string, string>) =>
    runInProcess(makeConfig(database, sandbox, env), database, (deps) =>
      new Schedules(deps, queues).sweeperTasks().align(),
    );
  const readRepairs = () => database.query(`select detail from sync.audit where action = 'schedulers_set' order by id`);
  await align({});
  expect(await readRepairs()).toEqual([{ detail: 'queue poll' }]);
  await align({ SCHEDULE_PULL_SHIPMENTS: '30s' });
  expect(await readRepairs()).toHaveLength(1);
  await queues.get('poll')?.removeJobScheduler('tick');
  await align({ SCHEDULE_PULL_SHIPMENTS: '30s' });
  expect(await readRepairs()).toEqual([{ detail: 'queue poll' }, { detail: 'queue poll' }]);
});

test.each(['reconcile', 'prune', 'pull-shipments'] as const)(
  'a tick queues %s, which is due in 20 seconds',
  async (job) => {
    const backend = await openQueueBackend({ REDIS_URL: undefined }, database.url, silentLogger);
    const queues = new Map((['poll', 'bulk'] as const).map((name) => [name, backend.backend.queue(name)]));
    closers.push(...[...queues.values()].map((queue) => () => queue.close()), backend.close);
    for (const queue of queues.values()) {
      queue.on('error', () => undefined);
      await queue.waitUntilReady();
    }
    await runInProcess(makeConfig(database, sandbox, { SCHEDULE_PRUNE: '0 3 * * *' }), database, async (deps) => {
      const schedules = new Schedules(deps, queues);
      await schedules.prepare();
      const far = `update sync.jobs set due_at = now() + interval '2 hours'`;
      await database.query(far);
      await database.query(`update sync.jobs set due_at = now() + interval '20 seconds' where job = $1`, [job]);
      await schedules.onTick();
    });
    const counts = await Promise.all([...queues.values()].map((queue) => queue.getJobCounts()));
    expect(counts.map(({ delayed }) => delayed)).toEqual(job === 'pull-shipments' ? [1, 0] : [0, 1]);
  },
);

test('due jobs of a client that waited for a slot are queued as soon as one is free', async () => {
  const backend = await openQueueBackend({ REDIS_URL: undefined }, database.url, silentLogger);
  const queue = backend.backend.queue('poll');
  queue.on('error', () => undefined);
  await queue.waitUntilReady();
  const seen: string[] = [];
  const worker = backend.backend.worker('poll', async ({ name }, _token, _signal) => void seen.push(name), 2);
  worker.on('error', () => undefined);
  await worker.waitUntilReady();
  void worker.run();
  closers.push(
    () => worker.close(),
    () => queue.close(),
    backend.close,
  );
  await runInProcess(makeConfig(database, sandbox, {}), database, async (deps) => {
    const schedules = new Schedules(deps, new Map([['poll', queue]]));
    await schedules.prepare();
    schedules.wakeClient('default');
    await waitFor('all that is due', () => new Set(seen).size === 7);
  });
  expect(seen).toContain('pull-shipments');
});
