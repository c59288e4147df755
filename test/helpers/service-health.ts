import type { HealthCode } from '../../src/service/health/judge-health.ts';
import { clientScope, everyWorker } from '../../src/service/sql/service-health.ts';
import type { TestDatabase } from './database.ts';

interface InsertedHealth {
  readonly client?: string;
  /** By default the whole client. */
  readonly scope?: string;
  /** By default all workers. */
  readonly worker?: string;
  readonly code: HealthCode;
  readonly words?: string;
  readonly sendWindow?: number | null;
  /** Milliseconds until the hold ends; by default it is over. */
  readonly untilInMs?: number;
  /** Minutes since it began. */
  readonly minutes?: number;
}

/** Stores a health, as a worker would after evidence. */
export async function insertHealth(
  database: TestDatabase,
  {
    client = 'default',
    scope = clientScope,
    worker = everyWorker,
    code,
    words = 'x',
    sendWindow = 1,
    untilInMs = 0,
    minutes = 0,
  }: InsertedHealth,
): Promise<void> {
  await database.query(
    `insert into sync.service_health (client, scope, worker, code, reason, error_code, failures,
       send_window, since, next_at, void_at)
     values ($1, $2, $3, $4, $5, 'timeout', 1, $6, now() - make_interval(mins => $7),
       now() + $8 * interval '1 millisecond',
       now() + greatest(interval '30 minutes', $8 * interval '1 millisecond'))`,
    [client, scope, worker, code, words, sendWindow, minutes, untilInMs],
  );
}

/** Ends the time of all holds. */
export const expireHolds = (database: TestDatabase) =>
  database.query('update sync.service_health set next_at = now()');
