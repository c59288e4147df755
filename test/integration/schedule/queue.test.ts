import { afterEach, describe, expect, test, vi } from 'vitest';
import { migrateDatabase } from '../../../src/cli/commands/migrate.ts';
import { silentLogger } from '../../../src/core/logger.ts';
import type { QueueBackend, TaskQueue } from '../../../src/schedule/backend.ts';
import { openQueueBackend } from '../../../src/schedule/open-queue.ts';
import { alignSchedulers, findMisfits, type Misfits } from '../../../src/schedule/schedulers.ts';
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

  async function open(): Promise<{
    backend: QueueBackend;
    queue: TaskQueue;
    flush: () => Promise<unknown>;
  }> {
    const redisUrl = kind === 'redis' ? redis.url : undefined;
    const { backend, close } = await openQueueBackend(
      { REDIS_URL: redisUrl },
      database.url,
      silentLogger,
    );
    const queue = backend.queue();
    queue.on('error', () => undefined);
    await queue.waitUntilReady();
    const flush = () => (redisUrl === undefined ? truncateQueue(database) : redis.flush());
    closers.unshift(() => queue.close(), close);
    await flush();
    return { backend, queue, flush };
  }

  /** Starts a worker that only records what fires. */
  async function startWorker(backend: QueueBackend) {
    const seen: string[] = [];
    const worker = backend.worker(async (name) => void seen.push(name));
    worker.on('error', () => undefined);
    await worker.waitUntilReady();
    void worker.run();
    closers.unshift(() => worker.close());
    return seen;
  }

  /** Aligns the schedulers. Returns what did not fit. */
  const align = async (
    queue: TaskQueue,
    wanted: Record<string, number>,
    isExact = true,
    offsetMs: number | null = null,
  ): Promise<Misfits | null> => {
    const paces = new Map(
      Object.entries(wanted).map(([name, everyMs]) => [name, { everyMs, offsetMs }]),
    );
    const misfits = await findMisfits(queue, paces, isExact);
    if (misfits !== null) await alignSchedulers(queue, paces, misfits);
    return misfits;
  };
  const [pull, prune] = ['pull-shipments', 'prune'] as const;
  const usual = { [pull]: 60_000, [prune]: 600_000 };

  test.skipIf(isSkipped)(
    'changes only a scheduler that differs, and sets all again after a flush',
    async () => {
      const { queue, flush } = await open();
      const names = [pull, prune];
      expect(await align(queue, usual)).toEqual({ set: names, missing: names, removed: [] });
      expect(await align(queue, usual)).toBe(null);
      const shorter = { ...usual, [pull]: 30_000 };
      expect(await align(queue, shorter, false)).toEqual({ set: [pull], missing: [], removed: [] });
      await flush();
      expect(await align(queue, shorter, false)).toMatchObject({ missing: names });
      expect((await queue.getJobSchedulers(0, -1)).map(({ key }) => key).sort()).toEqual(
        names.toSorted(),
      );
    },
  );

  test.skipIf(isSkipped)(
    'removes unknown schedulers and lengthens intervals only at the start of a worker',
    async () => {
      const { queue } = await open();
      await align(queue, { [pull]: 60_000, foreign: 60_000 });
      const longer = { [pull]: 120_000 };
      expect(await align(queue, longer, false)).toBe(null);
      expect(await align(queue, longer, true)).toMatchObject({ set: [pull], removed: ['foreign'] });
      const left = await queue.getJobSchedulers(0, -1);
      expect(left.map(({ key, every }) => [key, Number(every)])).toEqual([[pull, 120_000]]);
    },
  );

  test.skipIf(isSkipped)('sets a scheduler again whose pending job was lost', async () => {
    const { queue } = await open();
    await align(queue, usual);
    const schedulers = await queue.getJobSchedulers(0, -1);
    vi.spyOn(queue, 'getJobSchedulers').mockResolvedValue(
      schedulers.map((scheduler) =>
        scheduler.key === pull ? { ...scheduler, next: Date.now() - 200_000 } : scheduler,
      ),
    );
    expect(await align(queue, usual, false)).toEqual({ set: [pull], missing: [pull], removed: [] });
  });

  test.skipIf(isSkipped)('fires at its offset in each interval, also a new one', async () => {
    const { backend, queue } = await open();
    const seen = await startWorker(backend);
    await align(queue, { [pull]: 2_000 }, true, 1_500);
    expect(await align(queue, { [pull]: 2_000 }, true, 1_500)).toBeNull();
    expect(await align(queue, { [pull]: 2_000 }, true, 700)).toMatchObject({ set: [pull] });
    const readOffset = async () => Number((await queue.getJobSchedulers(0, -1))[0]?.next) % 2_000;
    expect(await readOffset()).toBe(700);
    seen.length = 0;
    await waitFor('two firings', () => seen.length >= 2);
    expect(new Set(seen)).toEqual(new Set([pull]));
    expect(await readOffset()).toBe(700);
  });
});

describe('a Redis', () => {
  const database = useDatabase();
  test.skipIf(!redis.available)('that may evict keys is refused with what to change', async () => {
    const evicting = await startRedis(['--maxmemory', '50mb', '--maxmemory-policy', 'allkeys-lru']);
    try {
      await expect(
        openQueueBackend({ REDIS_URL: evicting?.url }, database.url, silentLogger),
      ).rejects.toMatchObject({
        code: 'redis_evicts',
        remedy: expect.stringContaining('config set maxmemory-policy noeviction'),
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
      remedy: expect.stringContaining('fulfilment-sync migrate'),
    });
  });
});

describe('a schema of the queue whose tables were all emptied', () => {
  const database = useDatabase();
  test('is refused with what to do, and migrate creates it again', async () => {
    const tables = await database.query<{ name: string }>(
      `select string_agg('bullmq.' || quote_ident(tablename), ', ') as name from pg_tables where schemaname = 'bullmq'`,
    );
    await database.query(`truncate ${tables[0]?.name} cascade`);
    const open = () => openQueueBackend({}, database.url, silentLogger);
    await expect(open()).rejects.toMatchObject({ code: 'queue_schema_emptied' });
    await migrateDatabase(database.url, silentLogger);
    const { close } = await open();
    await close();
  });
});

describe('two installations on one Redis', () => {
  const databases = [useDatabase(), useDatabase()];

  test.skipIf(!redis.available)('have their own schedulers', async () => {
    const openAndCount = async (database: (typeof databases)[number] | undefined, adds = false) => {
      const env = { REDIS_URL: redis.url };
      const { backend, close } = await openQueueBackend(env, database?.url ?? '', silentLogger);
      const queue = backend.queue();
      queue.on('error', () => undefined);
      if (adds) await queue.upsertJobScheduler('prune', { every: 600_000 }, { name: 'prune' });
      const schedulers = await queue.getJobSchedulers(0, -1);
      await queue.close();
      await close();
      return schedulers.length;
    };
    const [mine, theirs] = databases;
    expect(await openAndCount(mine, true)).toBe(1);
    expect(await openAndCount(theirs)).toBe(0);
    expect(await openAndCount(mine)).toBe(1);
  });
});
