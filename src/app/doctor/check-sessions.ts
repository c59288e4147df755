import type { Config } from '../../../config/env.ts';
import { readSessionSettings, type SessionSettings } from '../../erp/reports/database-facts.ts';
import { connectDatabase } from '../deps/database.ts';
import { openQueueConnection } from '../deps/queue.ts';
import type { Logger } from '../logging/logger.ts';
import { type Finding, fail, ok, runCheck } from './finding.ts';

/** Settings that every session of our pools must have. The program works correctly only with these. */
const workSettings: Partial<SessionSettings> = { timeZone: 'UTC', searchPath: 'pg_catalog', lockTimeoutMs: 5_000 };
const queueSettings: Partial<SessionSettings> = { searchPath: 'bullmq' };

/** What to do if a pooler refuses or drops the `options` of a connection. pgbouncer can do nothing else. */
export const poolerRemedy =
  'a connection pooler does not pass on the `options` of a connection, as pgbouncer in every mode: let DATABASE_URL of' +
  ' this program lead to Postgres itself (docs/operations.md)';

/** Checks that the sessions of each pool have the settings that the program gives them. */
export function checkSessions(config: Config, log: Logger): Promise<readonly Finding[]> {
  const url = config.DATABASE_URL ?? '';
  return runCheck('sessions', 'see the log of Postgres', async () => {
    const work = connectDatabase(url, log, 'doctor sessions', 1);
    const queue = config.REDIS_URL === undefined ? openQueueConnection(url, log) : null;
    try {
      const wrong = [
        ...findDifferences('work', workSettings, await readSessionSettings(work.db)),
        ...(queue === null ? [] : findDifferences('queue', queueSettings, await readSessionSettings(queue.db))),
      ];
      return [
        wrong.length === 0
          ? ok('sessions', 'the sessions of every pool have the right settings')
          : fail('sessions', wrong.join('; '), poolerRemedy),
      ];
    } finally {
      await Promise.all([work.close(), queue?.close()]);
    }
  });
}

function findDifferences(pool: string, wanted: Partial<SessionSettings>, found: SessionSettings): string[] {
  return (Object.keys(wanted) as (keyof SessionSettings)[])
    .filter((name) => wanted[name] !== found[name])
    .map((name) => `pool ${pool}: ${name} is ${found[name]}, not ${wanted[name]}`);
}
