import type { Config } from '../../../config/env.ts';
import { redisProblem } from '../../queue/backend.ts';
import { openQueueBackend } from '../deps/queue.ts';
import { readRedisInfo } from '../deps/redis.ts';
import type { Logger } from '../logging/logger.ts';
import { type Finding, fail, ok, orFailure } from './finding.ts';

/** Whether the queue can be where it is to be. */
export async function checkQueue(config: Config, log: Logger): Promise<readonly Finding[]> {
  const { REDIS_URL: url } = config;
  if (url === undefined)
    return orFailure('queue', 'run: fulfilment-sync migrate', async () => {
      const { close } = await openQueueBackend(config, config.DATABASE_URL ?? '', log);
      await close();
      return [ok('queue', 'in Postgres (REDIS_URL is not set)')];
    });
  const remedy =
    'check REDIS_URL: host, port and password, and that Redis runs; or unset it to have the queue in Postgres';
  return orFailure('queue', remedy, async () => {
    const info = await readRedisInfo(url);
    const problem = redisProblem(info);
    if (problem !== null)
      return [
        fail('queue', problem.message, problem.code === 'redis_too_old' ? 'upgrade Redis' : 'change it as it says'),
      ];
    const version = /^redis_version:(\S+)/m.exec(info)?.[1] ?? '';
    const keeps = /^aof_enabled:1/m.test(info)
      ? 'kept on disk'
      : 'not kept on disk, which costs some late runs at most';
    return [ok('queue', `in Redis ${version}, noeviction, ${keeps}`)];
  });
}
