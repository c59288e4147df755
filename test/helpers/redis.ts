import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, inject } from 'vitest';
import { startRedis, type TestRedis } from './processes/redis-server.ts';

/** A Redis for the tests of one file, emptied after each. Its `url` is read inside a test; the lane is skipped without. */
export function useRedis(): { readonly url: string; readonly available: boolean; flush: () => Promise<void> } {
  let redis: TestRedis | null = null;
  const available = inject('redisAvailable');
  const flush = async () => {
    if (redis === null) return;
    const client = new Redis(redis.url);
    await client.flushall();
    client.disconnect();
  };
  beforeAll(async () => {
    redis = available ? await startRedis() : null;
  });
  afterEach(flush);
  afterAll(() => redis?.stop());
  return {
    get url() {
      if (redis === null) throw new Error('this machine has no Redis');
      return redis.url;
    },
    available,
    flush,
  };
}
