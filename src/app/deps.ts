import { hostname } from 'node:os';
import type { PgPool } from 'bullmq';
import { Redis } from 'ioredis';
import pg from 'pg';
import { Agent } from 'undici';
import type { Config } from '../../config/env.ts';
import { CodedError } from '../core/errors.ts';
import {
  assertTakesWrites,
  type Database,
  endWhereUnanswered,
  keepAliveInitialDelayMillis,
  openDatabase,
  poolConfig,
} from '../erp/connect.ts';
import { LeaseKeeper } from '../erp/leases.ts';
import { Listener } from '../erp/listen.ts';
import {
  assertPostgresQueueFits,
  assertRedisFits,
  longestBlockMs,
  postgresBackend,
  type QueueBackend,
  type QueueTelemetry,
  redisBackend,
} from '../queue/backend.ts';
import { Warehouse } from '../warehouse/client.ts';
import type { Exchange } from '../warehouse/http.ts';
import { errorFields, type Logger } from './log.ts';
import { repeatedWarnings } from './repeated.ts';

/** Bytes of one answer; a page of 100 shipments has some 200 KB, a list of 100,000 parcels some 30 MB. */
const maxResponseBytes = 64 * 1024 * 1024;
const connectTimeoutMs = 10_000;
const databasePoolSize = 12;
/** Shorter than a lease, so that a heartbeat without an answer is noticed in time. */
const heartbeatTimeoutMs = 5_000;
/** Two Workers, each of which keeps a client for LISTEN and needs another, and the producers. */
const queuePoolSize = 6;

/** How long Redis may take to answer. */
const redisAnswerMs = 5_000;

/** A database with the pool behind it, which its opener ends. */
export interface OpenDatabase {
  readonly db: Database;
  readonly close: () => Promise<void>;
}

/** Opens the ERP database. A connection that breaks while idle is logged, replaced, and no reason to end. */
export function connectDatabase(
  databaseUrl: string,
  log: Logger,
  name = 'main',
  max = databasePoolSize,
  queryTimeoutMs = 60_000,
): OpenDatabase {
  return opened(openPool(poolConfig(databaseUrl, name, max, queryTimeoutMs), log));
}

/**
 * As `connectDatabase`, for work that cannot do without writing: a connection that takes no writes, as one opened in the
 * middle of a failover may, is given up at once, rather than kept and used for as long as it is good for nothing.
 */
export function connectForWriting(
  databaseUrl: string,
  log: Logger,
  name = 'main',
  max = databasePoolSize,
  queryTimeoutMs = 60_000,
): OpenDatabase {
  const config = poolConfig(databaseUrl, name, max, queryTimeoutMs);
  return opened(openPool({ ...config, onConnect: assertTakesWrites }, log));
}

const opened = (pool: pg.Pool): OpenDatabase => ({ db: openDatabase(pool), close: () => pool.end() });

function openPool(options: pg.PoolConfig, log: Logger): pg.Pool {
  const pool = new pg.Pool(options);
  const warn = repeatedWarnings(log);
  const lost = (error: Error) => warn({ event: 'database_connection_lost', ...errorFields(error) });
  pool.on('error', lost);
  // The pool listens only while a client is idle. One that breaks while in use fails its query, which is handled there;
  // without a listener the event alone would end the process.
  pool.on('connect', (client) => {
    client.on('error', lost);
    endWhereUnanswered(client);
  });
  return pool;
}

/** Keeps leases alive on a connection of its own. */
export function openLeaseKeeper(databaseUrl: string, log: Logger): { keeper: LeaseKeeper; close: () => Promise<void> } {
  const { db, close } = connectForWriting(databaseUrl, log, 'leases', 1, heartbeatTimeoutMs);
  return {
    keeper: new LeaseKeeper(db, (error) => log.warn({ event: 'heartbeat_failed', ...errorFields(error) })),
    close,
  };
}

/** Listens to a channel of the ERP database, for as long as it is not closed. */
export function openListener(databaseUrl: string, channel: string, onNotify: () => void, log: Logger): Listener {
  const warn = repeatedWarnings(log);
  const onError = (error: Error) => warn({ event: 'listen_connection_lost', ...errorFields(error) });
  return new Listener({ databaseUrl, channel, onNotify, onError });
}

/**
 * The service's side of every configured client, over one set of connections.
 * @param onExchange told of every request and what came of it
 */
export function openWarehouses(
  config: Config,
  onExchange?: (client: string, exchange: Exchange) => void,
): { warehouses: Map<string, Warehouse>; close: () => Promise<void> } {
  const dispatcher = new Agent({
    connect: { timeout: Math.min(connectTimeoutMs, config.HTTP_TIMEOUT_MS) },
    maxResponseSize: maxResponseBytes,
    keepAliveTimeout: 30_000,
    // One request at a time on a connection: an answer that hangs must not hold up others behind it.
    pipelining: 1,
  });
  const options = {
    operations: config.operations,
    dispatcher,
    timeoutMs: config.HTTP_TIMEOUT_MS,
    requestsPerSecond: config.REQUESTS_PER_SECOND,
  };
  const warehouses = new Map(
    config.clients.map((client) => {
      const told = onExchange && { onExchange: (exchange: Exchange) => onExchange(client.key, exchange) };
      return [client.key, new Warehouse(client, { ...options, ...told })];
    }),
  );
  return { warehouses, close: () => dispatcher.destroy() };
}

export interface OpenQueueBackend {
  readonly backend: QueueBackend;
  readonly close: () => Promise<void>;
}

/**
 * Opens the queue: in Redis where REDIS_URL is set, else in Postgres.
 * @throws QueueSetupError where that Redis or that schema cannot carry it
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

/** Its own pool, as each Worker keeps a client of it, and as BullMQ's statements name no schema. */
export function openQueuePool(databaseUrl: string, log: Logger): PgPool {
  const pool = openPool(
    {
      connectionString: databaseUrl,
      max: queuePoolSize,
      keepAlive: true,
      keepAliveInitialDelayMillis,
      connectionTimeoutMillis: 10_000,
      query_timeout: 60_000,
      application_name: 'fulfilment-sync queue',
      options: '-c search_path=bullmq',
      onConnect: assertTakesWrites,
    },
    log,
  );
  // BullMQ describes the part of pg it uses with types of its own, which pg's are not assignable to by the letter.
  return pool as unknown as PgPool;
}

async function openRedisBackend(url: string, log: Logger, telemetry?: QueueTelemetry): Promise<OpenQueueBackend> {
  const retryStrategy = (times: number) => Math.min(times * 100, 2_000);
  const warn = repeatedWarnings(log);
  const lost = (error: unknown) => warn({ event: 'redis_connection_lost', ...errorFields(error) });
  const producer = new Redis(url, {
    maxRetriesPerRequest: 1,
    enableOfflineQueue: false,
    commandTimeout: redisAnswerMs,
    // A connection that swallows what it is given is otherwise kept, and every command on it waits in vain.
    socketTimeout: redisAnswerMs,
    retryStrategy,
    lazyConnect: true,
  });
  const consumer = new Redis(url, {
    maxRetriesPerRequest: null,
    socketTimeout: longestBlockMs + redisAnswerMs,
    retryStrategy,
    lazyConnect: true,
  });
  const close = async () => {
    producer.disconnect();
    consumer.disconnect();
  };
  producer.on('error', lost);
  consumer.on('error', lost);
  try {
    await Promise.all([producer.connect(), consumer.connect()]);
    await assertRedisFits(producer);
  } catch (error) {
    await close();
    throw error;
  }
  return { backend: redisBackend(producer, consumer, telemetry), close };
}

/**
 * What a Redis says of itself (INFO: server, memory, persistence).
 * @throws Error where it cannot be reached
 */
export async function readRedisInfo(url: string): Promise<string> {
  const redis = new Redis(url, {
    maxRetriesPerRequest: 1,
    commandTimeout: 5_000,
    retryStrategy: () => null,
    lazyConnect: true,
  });
  // The call itself says only that the connection is closed.
  let cause: Error | undefined;
  redis.on('error', (error) => {
    cause = error;
  });
  try {
    await redis.connect();
    return await redis.info();
  } catch (error) {
    throw cause === undefined ? error : new CodedError('redis_unreachable', cause.message);
  } finally {
    redis.disconnect();
  }
}

/** Names a worker in leases and the ledger. */
export function workerName(): string {
  return `${hostname()}:${process.pid}`;
}
