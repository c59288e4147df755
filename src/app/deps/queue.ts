import type { PgPool } from 'bullmq';
import type { Config } from '../../../config/env.ts';
import {
  assertTakesWrites,
  keepAliveInitialDelayMillis,
  mergeOptions,
  openDatabase,
} from '../../erp/connection/pool.ts';
import {
  assertPostgresQueueFits,
  assertRedisFits,
  longestBlockMs,
  postgresBackend,
  type QueueBackend,
  type QueueTelemetry,
  redisBackend,
} from '../../queue/backend.ts';
import type { Logger } from '../logging/logger.ts';
import { type OpenDatabase, openPool } from './database.ts';

/** Two Workers, each of which keeps a client for LISTEN and needs another, and the producers. */
const queuePoolSize = 6;

export interface OpenQueueBackend {
  readonly backend: QueueBackend;
  readonly close: () => Promise<void>;
}

/**
 * Opens the queue: in Redis if REDIS_URL is set, else in Postgres.
 * @throws QueueSetupError if that Redis or that schema cannot carry it
 */
export async function openQueueBackend(
  config: Pick<Config, 'REDIS_URL'>,
  databaseUrl: string,
  log: Logger,
  telemetry?: QueueTelemetry,
): Promise<OpenQueueBackend> {
  if (config.REDIS_URL !== undefined) return openRedisBackend(config.REDIS_URL, log, telemetry);
  const pool = openQueuePool(databaseUrl, log);
  try {
    await assertPostgresQueueFits(pool);
  } catch (error) {
    await pool.end();
    throw error;
  }
  return { backend: postgresBackend(pool, telemetry), close: () => pool.end() };
}

/** Opens a pool for the queue alone: each Worker keeps a client of it, and BullMQ's statements name no schema. */
export function openQueuePool(databaseUrl: string, log: Logger): PgPool {
  const pool = openPool({ ...queuePoolConfig(databaseUrl), max: queuePoolSize, onConnect: assertTakesWrites }, log);
  // BullMQ describes the part of pg it uses with types of its own, which pg's are not assignable to by the letter.
  return pool as unknown as PgPool;
}

/** Opens one connection with the settings of the queue's pool, to look at them. */
export function openQueueSessions(databaseUrl: string, log: Logger): OpenDatabase {
  const pool = openPool({ ...queuePoolConfig(databaseUrl), max: 1 }, log);
  return { db: openDatabase(pool), close: () => pool.end() };
}

const queuePoolConfig = (databaseUrl: string) => ({
  ...mergeOptions(databaseUrl, ['-c search_path=bullmq']),
  keepAlive: true,
  keepAliveInitialDelayMillis,
  connectionTimeoutMillis: 10_000,
  query_timeout: 60_000,
  application_name: 'fulfilment-sync queue',
});

async function openRedisBackend(url: string, log: Logger, telemetry?: QueueTelemetry): Promise<OpenQueueBackend> {
  const { openRedisConnections } = await import('./redis.ts');
  const { producer, consumer, connect, close } = openRedisConnections(url, longestBlockMs, log);
  try {
    await connect();
    await assertRedisFits(producer);
  } catch (error) {
    await close();
    throw error;
  }
  return { backend: redisBackend(producer, consumer, telemetry), close };
}
