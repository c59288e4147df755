import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, inject } from 'vitest';
import { openRedis } from './processes/redis-server.ts';
import type { TestRedis } from './processes/test-servers.ts';

/**
 * Starts a Redis for the tests of one file, and flushes it after each test. `url` may be read only
 * inside a test. Skip the tests if `available` is false.
 */
export function useRedis(): {
  readonly url: string;
  readonly available: boolean;
  flush: () => Promise<void>;
} {
  let redis: TestRedis | null = null;
  const available = inject('redisAvailable');
  const flush = async () => {
    if (redis === null) return;
    const client = new Redis(redis.url);
    await client.flushdb();
    client.disconnect();
  };
  beforeAll(async () => {
    redis = available ? await openRedis() : null;
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
