/**
 * BullMQ: a queue in Postgres or Redis that only keeps time. It can be emptied at any moment
 * without loss: the tables in Postgres say what is due.
 */

import { setTimeout as wait } from 'node:timers/promises';
import {
  assertSchemaCompatibility,
  type PgPool,
  PostgresConnection,
  type PostgresConnectionOptions,
  PostgresQueueBackend,
  Queue,
  runMigrations,
  SchemaMigrationRequiredError,
  SchemaVersionMismatchError,
  Worker,
  withBackend,
} from 'bullmq';
import { BullMQOtel } from 'bullmq-otel';
import type { Redis } from 'ioredis';
import { pauses } from '../core/backoff.ts';
import type { ErrorCode } from '../core/error-codes.ts';
import { CodedError } from '../core/errors.ts';

/** Name of the queue. */
export const queueName = 'schedules';

/** Called with the name of each scheduler that fires. */
type OnFiring = (name: string) => Promise<void>;

/** A part of the queue that reports its errors. */
interface ReportsErrors {
  on(event: 'error', listener: (error: Error) => void): unknown;
}

/** The part of BullMQ's Queue that we use. It is the same for both backends. */
export type TaskQueue = ReportsErrors &
  Pick<
    Queue,
    | 'waitUntilReady'
    | 'getJobSchedulers'
    | 'upsertJobScheduler'
    | 'removeJobScheduler'
    | 'getJobCounts'
    | 'getJobs'
    | 'close'
  >;

/** The part of BullMQ's Worker that we use. It is the same for both backends. */
type QueueWorker = ReportsErrors & Pick<Worker, 'waitUntilReady' | 'run' | 'close'>;

/** The place of the queue. */
export interface QueueBackend {
  readonly kind: 'postgres' | 'redis';
  readonly queue: () => TaskQueue;
  readonly worker: (onFiring: OnFiring) => QueueWorker;
}

/**
 * The error of a queue that cannot be used with its present setup. The message says what to change.
 */
export class QueueSetupError extends CodedError {}

const refuse = (code: ErrorCode, message: string, remedy: string, cause?: unknown) =>
  new QueueSetupError(code, message, { remedy, cause });

/**
 * Maximum time for which a worker waits for the next firing, in milliseconds. Its connection to
 * Redis is silent for as long.
 */
export const longestBlockMs = 10_000;

/**
 * Maximum time that a worker waits without a look at the queue in Postgres, in milliseconds: a
 * scheduler that another part has set meanwhile fires at most this late.
 */
const longestWaitMs = 2_000;

/**
 * The part of BullMQ that talks to Postgres. A worker knows from the last firing when the next one
 * is due, so it only waits. BullMQ itself also listens, and asks two questions before each wait.
 */
class ClockBackend extends PostgresQueueBackend {
  #closing = new AbortController();

  override async waitForJob(seconds: number): Promise<null> {
    const ms = Math.min(Math.ceil(seconds * 1_000), longestWaitMs);
    // Closing the worker ends the wait.
    return wait(ms, null, { signal: this.#closing.signal }).catch(() => null);
  }

  override async disconnectBlocking(): Promise<void> {
    this.#closing.abort();
  }

  override async reconnectBlocking(): Promise<void> {
    this.#closing = new AbortController();
  }
}

const onPostgres = withBackend<ClockBackend, PostgresConnectionOptions>(
  (name, options) =>
    new ClockBackend(new PostgresConnection(options.connection), name, options, true),
);

/**
 * Makes the spans of firings. It does nothing unless the operator starts an SDK (deploy/otel).
 */
const telemetry = new BullMQOtel({ tracerName: 'fulfilment-sync' });

const queueOptions = { streams: { events: { maxLen: 1_000 } }, telemetry };

const workerOptions = {
  telemetry,
  // A Worker that starts automatically on a schema that is not ready starves the event loop.
  autorun: false,
  // Looks for due runs follow each other. BullMQ asks the queue more often if it may have more.
  concurrency: 1,
  lockDuration: 10_000,
  stalledInterval: 30_000,
  maxStalledCount: 10,
  runRetryDelay: pauses.queueWorker.firstMs,
  drainDelay: longestBlockMs / 1_000,
  removeOnComplete: { count: 100 },
  removeOnFail: { count: 100 },
};

/** Builds the queue in Postgres. */
export function buildPostgresBackend(connection: PgPool): QueueBackend {
  return {
    kind: 'postgres',
    queue: () => new onPostgres.Queue(queueName, { ...queueOptions, connection }),
    worker: (onFiring) =>
      new onPostgres.Worker(queueName, ({ name }) => onFiring(name), {
        ...{ ...workerOptions, connection },
      }),
  };
}

/** Connections and keys of the queue in Redis. */
interface RedisConnections {
  /** Answers at once or fails (no offline queue). */
  readonly producer: Redis;
  /** Waits until Redis is available again. */
  readonly consumer: Redis;
  /** Begin of all keys. Installations that share one Redis have their own. */
  readonly prefix: string;
}

/** Builds the queue in Redis. */
export function buildRedisBackend({ producer, consumer, prefix }: RedisConnections): QueueBackend {
  return {
    kind: 'redis',
    queue: () => new Queue(queueName, { ...queueOptions, connection: producer, prefix }),
    worker: (onFiring) =>
      new Worker(queueName, ({ name }) => onFiring(name), {
        ...{ ...workerOptions, connection: consumer, prefix },
      }),
  };
}

/**
 * Drops a schema whose tables were emptied: without its record of migrations, BullMQ would create
 * everything again, and fail. Nothing is lost with it.
 */
const dropEmptiedSchema = `do $$ begin
  if to_regclass('bullmq.migration') is not null and to_regclass('bullmq.job') is not null then
    lock table bullmq.migration in access exclusive mode;
    if not exists (select from bullmq.migration) then drop schema bullmq cascade; end if;
  end if;
end $$`;

/**
 * Creates or upgrades the queue's schema in Postgres. Creates it again if all of its tables were
 * emptied.
 */
export async function migrateQueue(pool: PgPool): Promise<void> {
  // The migration takes an advisory lock, so it needs one session.
  const session = await pool.connect();
  try {
    await session.query(dropEmptiedSchema);
    await runMigrations(session);
  } finally {
    session.release();
  }
}

/**
 * Checks that the queue's schema exists and has a version that this code supports.
 * @throws QueueSetupError that says what to do
 */
export async function assertPostgresQueueFits(pool: PgPool): Promise<void> {
  const migrate = 'run: fulfilment-sync migrate';

  const version = await assertSchemaCompatibility(pool).catch((cause: unknown) => {
    if (cause instanceof SchemaMigrationRequiredError)
      throw refuse('queue_schema_missing', "The database lacks the queue's schema", migrate, cause);
    if (!(cause instanceof SchemaVersionMismatchError)) throw cause;
    const message = "The queue's schema is newer than this version";
    throw refuse('queue_schema_too_new', message, 'upgrade fulfilment-sync', cause);
  });
  if (version === 0)
    throw refuse('queue_schema_emptied', "The tables of the queue's schema were emptied", migrate);
}

const minRedisVersion = [6, 2] as const;

/**
 * Returns the reason why a Redis server cannot hold the queue, or null if it can. `info` is its
 * answer to INFO.
 */
export function findRedisProblem(info: string): QueueSetupError | null {
  const version = /^redis_version:(\S+)/m.exec(info)?.[1] ?? '0.0';
  const [major = 0, minor = 0] = version.split('.').map(Number);
  if (major < minRedisVersion[0] || (major === minRedisVersion[0] && minor < minRedisVersion[1]))
    return refuse('redis_too_old', `REDIS_URL: Redis ${version} is too old`, 'use 6.2 or newer');
  const role = findRedisRole(info);
  if (role !== null) return role;

  const policy = /^maxmemory_policy:(\S+)/m.exec(info)?.[1];
  if (policy === 'noeviction') return null;
  return refuse(
    'redis_evicts',
    `REDIS_URL: maxmemory-policy is ${policy ?? 'not known'}, ` +
      'with which Redis may delete queue data',
    'redis-cli config set maxmemory-policy noeviction (and in redis.conf)',
  );
}

const oneAddress = 'set REDIS_URL to an address that always leads to the primary, such as a proxy';
const noCluster = 'set REDIS_URL to a Redis without cluster mode, or unset it';

/** Returns the error of a server whose role does not fit; null if it can hold the queue. */
function findRedisRole(info: string): QueueSetupError | null {
  const refuseRole = (role: string, remedy: string) =>
    refuse('redis_role', `REDIS_URL leads to ${role}`, remedy);

  if (/^redis_mode:sentinel/m.test(info)) return refuseRole('a Sentinel, not to Redis', oneAddress);
  if (/^redis_mode:cluster/m.test(info)) return refuseRole('a Redis Cluster', noCluster);
  if (/^role:slave/m.test(info)) return refuseRole('a replica, which takes no writes', oneAddress);
  return null;
}
