import type { Config } from '../../../config/env.ts';
import { findRedisProblem } from '../../queue/backend.ts';
import { openQueueBackend } from '../deps/queue.ts';
import { readRedisInfo } from '../deps/redis.ts';
import type { Logger } from '../logging/logger.ts';
import { type Finding, fail, ok, runCheck } from './finding.ts';

/** Checks that the queue can be opened: in Redis if REDIS_URL is set, else in Postgres. */
export async function checkQueue(config: Config, log: Logger): Promise<readonly Finding[]> {
  const { REDIS_URL: url } = config;
  if (url === undefined)
    return runCheck('queue', 'run: fulfilment-sync migrate', async () => {
      const { close } = await openQueueBackend(config, config.DATABASE_URL ?? '', log);
      await close();
      return [ok('queue', 'in Postgres (REDIS_URL is not set)')];
    });
  const remedy =
    'check REDIS_URL: host, port and password, and that Redis runs; or unset it to have the queue in Postgres';
  return runCheck('queue', remedy, async () => {
    const info = await readRedisInfo(url);
    const problem = findRedisProblem(info);
    if (problem !== null)
      return [
        fail(
          'queue',
          problem.message,
          problem.code === 'redis_too_old' ? 'upgrade Redis' : 'change this setting of Redis',
        ),
      ];
    const version = /^redis_version:(\S+)/m.exec(info)?.[1] ?? '';
    const keeps = /^aof_enabled:1/m.test(info)
      ? 'kept on disk'
      : 'not kept on disk (if Redis loses its data, some runs are late)';
    return [ok('queue', `in Redis ${version}, noeviction, ${keeps}`)];
  });
}
