/**
 * BullMQ: queues in Postgres or Redis, their schedulers, and what brings due jobs into them. The queue can be emptied
 * at any time, and nothing is lost: Postgres says what is due.
 */

import {
  assertSchemaCompatibility,
  createPostgresBackend,
  type PgPool,
  Queue,
  runMigrations,
  SchemaMigrationRequiredError,
  SchemaVersionMismatchError,
  type Telemetry,
  Worker,
  withBackend,
} from 'bullmq';
import type { Redis } from 'ioredis';
import { CodedError } from '../core/errors.ts';
import type { JobData, QueueName } from './define-job.ts';

/** What BullMQ tells of each job to whoever traces it. */
export type { Telemetry as QueueTelemetry } from 'bullmq';

/** The queue cannot be used as it is set up; the message says what to change. */
export class QueueSetupError extends CodedError {}

/** A queued job as a processor sees it. */
export interface QueuedJob {
  readonly name: string;
  readonly data: JobData;
}

export interface SchedulerEntry {
  readonly key: string;
  readonly every?: number;
  readonly pattern?: string;
  readonly template?: { readonly data?: JobData };
}

/** What we use of BullMQ's Queue, the same on both backends. */
export interface TaskQueue {
  waitUntilReady(): Promise<unknown>;
  addBulk(
    jobs: {
      name: string;
      data: JobData;
      opts: { attempts: number; deduplication: { id: string }; delay?: number };
    }[],
  ): Promise<unknown>;
  getJobSchedulers(start: number, end: number): Promise<SchedulerEntry[]>;
  upsertJobScheduler(
    id: string,
    repeat: { every: number } | { pattern: string; tz: string },
    template: { name: string; data: JobData; opts: { attempts: number } },
  ): Promise<unknown>;
  removeJobScheduler(id: string): Promise<boolean>;
  /** Jobs of one state, by place. Costs a query for each. */
  getJobs(state: 'waiting', start: number, end: number): Promise<QueuedJob[]>;
  /** Jobs by state. */
  getJobCounts(): Promise<Readonly<Record<string, number>>>;
  on(event: 'error', listener: (error: Error) => void): unknown;
  close(): Promise<void>;
}

/** What we use of BullMQ's Worker, the same on both backends. */
interface TaskWorker {
  waitUntilReady(): Promise<unknown>;
  run(): Promise<void>;
  cancelAllJobs(reason?: string): void;
  on(event: 'error', listener: (error: Error) => void): unknown;
  close(force?: boolean): Promise<void>;
}

/** Declares all three parameters, or BullMQ passes no signal. */
export type Processor = (job: QueuedJob, token: string | undefined, signal: AbortSignal | undefined) => Promise<void>;

/** Where the queue lives. It is clock and dispatcher only: everything that must not be lost is in the ERP database. */
export interface QueueBackend {
  readonly kind: 'postgres' | 'redis';
  readonly queue: (name: QueueName) => TaskQueue;
  readonly worker: (name: QueueName, processor: Processor, concurrency: number) => TaskWorker;
}

/**
 * Seconds after which an idle worker that knows of nothing to come looks by itself: where its connection swallows what it
 * is told, that is all it has. One that knows of a job to come looks when that is due.
 */
const drainDelay = 5;
/** How long a worker's connection to Redis may be silent by design; BullMQ blocks for no more than 10 s. */
export const longestBlockMs = 10_000;

function queueOptions(telemetry: Telemetry | undefined) {
  return { streams: { events: { maxLen: 1_000 } }, ...(telemetry === undefined ? {} : { telemetry }) };
}

function workerOptions(concurrency: number, telemetry: Telemetry | undefined) {
  return {
    ...(telemetry === undefined ? {} : { telemetry }),
    // A Worker that starts by itself on a schema that is not ready starves the event loop.
    autorun: false,
    concurrency,
    lockDuration: 10_000,
    stalledInterval: 5_000,
    maxStalledCount: 10,
    runRetryDelay: 1_000,
    drainDelay,
    removeOnComplete: { count: 100 },
    removeOnFail: { count: 100 },
  };
}

/** The queue in Postgres. The pool needs `2 x workers + 2` clients: each Worker keeps one for LISTEN. */
export function postgresBackend(pool: PgPool, telemetry?: Telemetry): QueueBackend {
  const backed = withBackend(createPostgresBackend);
  return {
    kind: 'postgres',
    queue: (name) => new backed.Queue<JobData>(name, { ...queueOptions(telemetry), connection: pool }),
    worker: (name, processor, concurrency) =>
      new backed.Worker<JobData>(name, (job, token, signal) => processor(job, token, signal), {
        ...workerOptions(concurrency, telemetry),
        connection: pool,
      }),
  };
}

/**
 * The queue in Redis.
 * @param producer answers at once or fails (no offline queue)
 * @param consumer waits for Redis to come back, as long as it takes
 */
export function redisBackend(producer: Redis, consumer: Redis, telemetry?: Telemetry): QueueBackend {
  return {
    kind: 'redis',
    queue: (name) => new Queue<JobData>(name, { ...queueOptions(telemetry), connection: producer }),
    worker: (name, processor, concurrency) =>
      new Worker<JobData>(name, (job, token, signal) => processor(job, token, signal), {
        ...workerOptions(concurrency, telemetry),
        connection: consumer,
      }),
  };
}

/** Creates or upgrades the queue's own schema in Postgres. */
export async function migrateQueue(pool: PgPool): Promise<void> {
  // On one session, as it takes an advisory lock.
  const session = await pool.connect();
  try {
    await runMigrations(session);
  } finally {
    session.release();
  }
}

/**
 * Checks that the queue's schema is there and of a version that this code can work with.
 * @throws QueueSetupError that says what to do
 */
export async function assertPostgresQueueFits(pool: PgPool): Promise<void> {
  try {
    await assertSchemaCompatibility(pool);
  } catch (cause) {
    if (cause instanceof SchemaMigrationRequiredError) {
      const message = "The database lacks the queue's schema; run: fulfilment-sync migrate";
      throw new QueueSetupError('queue_schema_missing', message, { cause });
    }
    if (!(cause instanceof SchemaVersionMismatchError)) throw cause;
    throw new QueueSetupError('queue_schema_too_new', "The queue's schema is newer than this version; upgrade it", {
      cause,
    });
  }
}

const oldestRedis = [6, 2] as const;

/**
 * Checks that a Redis can carry the queue.
 * @throws QueueSetupError that says what to change
 */
export async function assertRedisFits(redis: Redis): Promise<void> {
  const problem = redisProblem(`${await redis.info('server')}\n${await redis.info('memory')}`);
  if (problem !== null) throw problem;
}

/** What keeps a Redis, by its own INFO, from carrying the queue; null where nothing does. */
export function redisProblem(info: string): QueueSetupError | null {
  const version = /^redis_version:(\S+)/m.exec(info)?.[1] ?? '0.0';
  const [major = 0, minor = 0] = version.split('.').map(Number);
  if (major < oldestRedis[0] || (major === oldestRedis[0] && minor < oldestRedis[1])) {
    return new QueueSetupError('redis_too_old', `REDIS_URL: Redis ${version} is too old; use 6.2 or newer`);
  }
  const policy = /^maxmemory_policy:(\S+)/m.exec(info)?.[1];
  if (policy === 'noeviction') return null;
  return new QueueSetupError(
    'redis_evicts',
    `REDIS_URL: maxmemory-policy is ${policy ?? 'not known'}, under which Redis may throw queue data away; ` +
      'set it with: redis-cli config set maxmemory-policy noeviction (and in redis.conf)',
  );
}
