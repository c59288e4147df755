import { setTimeout as wait } from 'node:timers/promises';
import { Redis } from 'ioredis';
import type { Fault, Stage } from '../stage.ts';

export const redisFaults: readonly Fault[] = [
  {
    name: 'redis-kill',
    about: 'SIGKILL, and started again within 3 s, empty',
    queue: 'redis',
    strike: ({ random, parts }) => parts.servers.redis.restart(random.between(0, 3_000), 'SIGKILL'),
  },
  {
    name: 'redis-flush',
    about: 'FLUSHALL',
    queue: 'redis',
    strike: (stage) => runCommand(stage, (redis) => redis.flushall()),
  },
  {
    name: 'redis-memory',
    about: 'out of memory: every write is refused',
    queue: 'redis',
    strike: async (stage) => {
      await runCommand(stage, (redis) => redis.config('SET', 'maxmemory', '1'));
      await wait(stage.random.between(1_000, 4_000));
      await runCommand(stage, (redis) => redis.config('SET', 'maxmemory', '0'));
    },
  },
];

async function runCommand(stage: Stage, act: (redis: Redis) => Promise<unknown>): Promise<void> {
  const redis = new Redis(stage.parts.servers.redis.url);
  await act(redis);
  redis.disconnect();
}
