import type { Config } from '../../../config/env.ts';
import { readSessionSettings, type SessionSettings } from '../../erp/reports/diagnosis.ts';
import { connectDatabase } from '../deps/database.ts';
import { openQueueSessions } from '../deps/queue.ts';
import type { Logger } from '../logging/logger.ts';
import { type Finding, fail, ok, orFailure } from './finding.ts';

/** Settings that every session of the product's own pools must have. Work stays correct only with these. */
const ofWork: Partial<SessionSettings> = { timeZone: 'UTC', searchPath: 'pg_catalog', lockTimeoutMs: 5_000 };
const ofQueue: Partial<SessionSettings> = { searchPath: 'bullmq' };

const remedy =
  'something between here and Postgres drops the `options` of a connection: a pooler (pgbouncer: session mode, and' +
  ' ignore_startup_parameters without options)';

/** Finds out whether the sessions of each pool have the settings that the product gives them. */
export function checkSessions(config: Config, log: Logger): Promise<readonly Finding[]> {
  const url = config.DATABASE_URL ?? '';
  return orFailure('sessions', 'see what Postgres says about it in its log', async () => {
    const work = connectDatabase(url, log, 'doctor sessions', 1);
    const queue = config.REDIS_URL === undefined ? openQueueSessions(url, log) : null;
    try {
      const wrong = [
        ...differences('work', ofWork, await readSessionSettings(work.db)),
        ...(queue === null ? [] : differences('queue', ofQueue, await readSessionSettings(queue.db))),
      ];
      return [
        wrong.length === 0
          ? ok('sessions', 'every pool has its own settings')
          : fail('sessions', wrong.join('; '), remedy),
      ];
    } finally {
      await Promise.all([work.close(), queue?.close()]);
    }
  });
}

function differences(pool: string, wanted: Partial<SessionSettings>, found: SessionSettings): string[] {
  return (Object.keys(wanted) as (keyof SessionSettings)[])
    .filter((name) => wanted[name] !== found[name])
    .map((name) => `pool ${pool}: ${name} is ${found[name]}, not ${wanted[name]}`);
}
