import { afterEach, describe, expect, test } from 'vitest';
import type { JobName } from '../../../config/jobs.ts';
import { openQueueBackend } from '../../../src/app/deps/queue.ts';
import { silentLogger } from '../../../src/app/logging/logger.ts';
import type { QueueBackend, TaskQueue } from '../../../src/queue/backend.ts';
import type { QueuedJob } from '../../../src/queue/define-job.ts';
import { dispatchRuns, readWaitingRuns } from '../../../src/queue/dispatch.ts';
import { alignSchedulers, findSchedulerChanges } from '../../../src/queue/schedulers.ts';
import { useDatabase } from '../../helpers/database.ts';
import { startRedis } from '../../helpers/processes/redis-server.ts';
import { truncateQueue } from '../../helpers/queue.ts';
import { useRedis } from '../../helpers/redis.ts';
import { waitFor } from '../../helpers/wait.ts';

const redis = useRedis();

describe.each(['postgres', 'redis'] as const)('the queue in %s', (kind) => {
  const database = useDatabase();
  const closers: (() => Promise<unknown>)[] = [];
  afterEach(async () => {
    for (const close of closers.splice(0)) await close();
  });
  const isSkipped = kind === 'redis' && !redis.available;

  async function open(): Promise<{ backend: QueueBackend; queue: TaskQueue; flush: () => Promise<unknown> }> {
    const redisUrl = kind === 'redis' ? redis.url : undefined;
    const { backend, close } = await openQueueBackend({ REDIS_URL: redisUrl }, database.url, silentLogger);
    const queue = backend.queue('poll');
    queue.on('error', () => undefined);
    await queue.waitUntilReady();
    const flush = () => (redisUrl === undefined ? truncateQueue(database) : redis.flush());
    closers.unshift(() => queue.close(), close);
    await flush();
    return { backend, queue, flush };
  }

  /** Starts a worker whose jobs wait until `release` is called. */
  async function startWorker(backend: QueueBackend) {
    const seen: QueuedJob[] = [];
    let release: () => void = () => undefined;
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    const worker = backend.worker(
      'poll',
      async ({ name, data }, _token, _signal) => {
        seen.push({ name, data });
        await gate;
      },
      4,
    );
    worker.on('error', () => undefined);
    await worker.waitUntilReady();
    void worker.run();
    closers.unshift(async () => {
      release();
      await worker.close();
    });
    return { seen, release };
  }

  test.skipIf(isSkipped)('ticks on schedule, and gives each tick to one worker', async () => {
    const { backend, queue } = await open();
    await alignSchedulers(queue, 300);
    const { seen, release } = await startWorker(backend);
    release();
    await waitFor('three ticks', () => seen.length >= 3);
    expect(seen[0]).toEqual({ name: 'tick', data: {} });
  });

  test.skipIf(isSkipped)('changes only a tick that differs, and restores it after a flush', async () => {
    const { queue, flush } = await open();
    const unchanged = { set: false, missing: false, removed: [] };
    expect(await alignSchedulers(queue, 60_000)).toEqual({ set: true, missing: true, removed: [] });
    expect(await alignSchedulers(queue, 60_000)).toEqual(unchanged);
    expect(await alignSchedulers(queue, 30_000)).toEqual({ set: true, missing: false, removed: [] });
    expect(await alignSchedulers(queue, 30_000)).toEqual(unchanged);
    await flush();
    expect(await findSchedulerChanges(queue, 30_000)).toMatchObject({ set: true, missing: true });
    expect(await alignSchedulers(queue, 30_000)).toMatchObject({ set: true, missing: true });
    expect(await findSchedulerChanges(queue, 30_000)).toEqual(unchanged);
  });

  const dueRun = (client: string, { job = 'pull-shipments' as JobName, dueMs = 1_000, inMs = 0 } = {}) => ({
    job,
    client,
    dueMs,
    inMs,
  });

  test.skipIf(isSkipped)('queues a client once while it is queued or running, and again afterwards', async () => {
    const { backend, queue } = await open();
    const { seen, release } = await startWorker(backend);
    await dispatchRuns(queue, [dueRun('a'), dueRun('b')]);
    await waitFor('both to start', () => seen.length === 2);
    await dispatchRuns(queue, [dueRun('a'), dueRun('b'), dueRun('c')]);
    await waitFor('the third to start', () => seen.length === 3);
    expect(seen.map(({ data }) => data.client).sort()).toEqual(['a', 'b', 'c']);
    release();
    await waitFor('a to be queued again', async () => {
      await dispatchRuns(queue, [dueRun('a')]);
      return seen.length > 3;
    });
  });

  test.skipIf(isSkipped)('queues a run that is due soon with a delay, once for each due time', async () => {
    const { backend, queue } = await open();
    const { seen, release } = await startWorker(backend);
    release();
    const startedAtMs = performance.now();
    await dispatchRuns(queue, [dueRun('a', { inMs: 600 }), dueRun('b', { inMs: -5 })]);
    await dispatchRuns(queue, [dueRun('a', { inMs: 600 })]);
    await waitFor('b', () => seen.length === 1);
    expect(seen[0]?.data).toEqual({ client: 'b' });
    await waitFor('a', () => seen.length === 2);
    expect(performance.now() - startedAtMs).toBeGreaterThanOrEqual(600);
    await dispatchRuns(queue, [dueRun('a', { dueMs: 2_000, inMs: 50 })]);
    await waitFor('a, for its next due time', () => seen.length === 3);
    expect(seen.map(({ data }) => data.client)).toEqual(['b', 'a', 'a']);
  });

  test.skipIf(isSkipped)('queues an overdue run every 30 seconds, even if it is marked as queued', async () => {
    const { backend, queue } = await open();
    const { seen } = await startWorker(backend);
    await dispatchRuns(queue, [dueRun('a')]);
    await waitFor('one run', () => seen.length === 1);
    await dispatchRuns(queue, [dueRun('a')], { nowMs: 60_000 });
    await dispatchRuns(queue, [dueRun('a')], { nowMs: 61_000 });
    await waitFor('two runs', () => seen.length === 2);
    await dispatchRuns(queue, [dueRun('a')], { nowMs: 91_000 });
    await waitFor('a third', () => seen.length === 3);
  });

  test.skipIf(isSkipped)('keeps an overdue run queued only once while no worker takes it', async () => {
    const { queue } = await open();
    for (let halfMinutes = 0; halfMinutes < 4; halfMinutes++)
      await dispatchRuns(queue, [dueRun('a'), dueRun('b')], {
        nowMs: halfMinutes * 30_000,
        waiting: await readWaitingRuns(queue),
      });
    await dispatchRuns(queue, [dueRun('a', { job: 'pull-orders' })], {
      nowMs: 0,
      waiting: await readWaitingRuns(queue),
    });
    expect((await queue.getJobCounts()).waiting).toBe(3);
  });
});

describe('a Redis', () => {
  const database = useDatabase();
  test.skipIf(!redis.available)('that may evict keys is refused with what to change', async () => {
    const evicting = await startRedis(['--maxmemory', '50mb', '--maxmemory-policy', 'allkeys-lru']);
    try {
      await expect(openQueueBackend({ REDIS_URL: evicting?.url }, database.url, silentLogger)).rejects.toMatchObject({
        code: 'redis_evicts',
        message: expect.stringContaining('config set maxmemory-policy noeviction'),
      });
    } finally {
      await evicting?.stop();
    }
  });
});

describe('a database that was never migrated', () => {
  const database = useDatabase({ migrated: false });
  test('is refused with what to do', async () => {
    await expect(openQueueBackend({}, database.url, silentLogger)).rejects.toMatchObject({
      code: 'queue_schema_missing',
      message: expect.stringContaining('fulfilment-sync migrate'),
    });
  });
});
