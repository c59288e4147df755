import type { PgPool } from 'bullmq';
import type { Config } from '../../config/env.ts';
import type { Logger } from '../core/logger.ts';
import { connectDatabase, openPool } from '../db/connect.ts';
import { readInstallationName } from '../db/installation-name.ts';
import { idleTimeoutMillis, keepAliveInitialDelayMillis, type PoolOptions } from '../db/pool.ts';
import { pinnedSettings, prepareSession } from '../db/session-settings.ts';
import {
  assertPostgresQueueFits,
  buildPostgresBackend,
  buildRedisBackend,
  findRedisProblem,
  longestBlockMs,
  type QueueBackend,
} from './backend.ts';

/** Connections of the queue: BullMQ's Queue, its Worker, and the renewal of its locks. */
const queuePoolSize = 3;

/** A queue backend whose connections the caller has to close. */
interface OpenQueueBackend {
  readonly backend: QueueBackend;
  readonly close: () => Promise<void>;
}

/**
 * Opens the queue: in Redis if REDIS_URL is set, else in Postgres.
 * @throws QueueSetupError if the settings of Redis, or the schema of the queue, do not fit
 */
export async function openQueueBackend(
  config: Pick<Config, 'REDIS_URL'>,
  databaseUrl: string,
  log: Logger,
): Promise<OpenQueueBackend> {
  if (config.REDIS_URL !== undefined) return openRedisBackend(config.REDIS_URL, databaseUrl, log);
  const pool = openQueuePool(databaseUrl, log);
  try {
    await assertPostgresQueueFits(pool);
  } catch (error) {
    await pool.end();
    throw error;
  }
  return { backend: buildPostgresBackend(pool), close: () => pool.end() };
}

/**
 * Settings of the queue's sessions. BullMQ migrations wait for each other by a lock: only the
 * statement ends that.
 */
const queueSettings = {
  ...pinnedSettings,
  search_path: 'bullmq',
  lock_timeout: '0',
  statement_timeout: '55000',
  idle_in_transaction_session_timeout: '60000',
};

/**
 * Opens a pool for the queue only: BullMQ's workers hold connections, and its statements name no
 * schema.
 */
export function openQueuePool(databaseUrl: string, log: Logger): PgPool {
  const options: PoolOptions = {
    connectionString: databaseUrl,
    onConnect: async (client) => void (await prepareSession(client, queueSettings, true)),
    keepAlive: true,
    keepAliveInitialDelayMillis,
    connectionTimeoutMillis: 10_000,
    query_timeout: 60_000,
    idleTimeoutMillis,
    application_name: 'fulfilment-sync queue',
    max: queuePoolSize,
  };
  // BullMQ has its own types for the part of pg that it uses. The types of pg are not assignable to
  // them.
  return openPool(options, log) as unknown as PgPool;
}

async function openRedisBackend(
  url: string,
  databaseUrl: string,
  log: Logger,
): Promise<OpenQueueBackend> {
  const { openRedisConnections } = await import('./open-redis.ts');
  const { producer, consumer, connect, close } = openRedisConnections(url, longestBlockMs, log);
  try {
    await connect();
    const problem = findRedisProblem(await producer.info());
    if (problem !== null) throw problem;
    const prefix = `fulfilment-sync-${await readName(databaseUrl, log)}`;
    return { backend: buildRedisBackend({ producer, consumer, prefix }), close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function readName(databaseUrl: string, log: Logger): Promise<string> {
  const { db, close } = connectDatabase(databaseUrl, log, { name: 'queue', max: 1 });
  try {
    return await readInstallationName(db);
  } finally {
    await close();
  }
}
