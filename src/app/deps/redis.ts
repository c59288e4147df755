import { Redis } from 'ioredis';
import { CodedError } from '../../core/errors.ts';
import { errorFields, type Logger } from '../logging/logger.ts';
import { throttleWarnings } from '../logging/throttle-warnings.ts';

/** Timeout of an answer of Redis, in milliseconds. */
const redisAnswerMs = 5_000;

/** The two connections that BullMQ needs: one that fails fast, and one that may block while it waits for a job. */
export interface RedisConnections {
  readonly producer: Redis;
  readonly consumer: Redis;
  readonly connect: () => Promise<unknown>;
  readonly close: () => Promise<void>;
}

/**
 * Prepares the connections of a queue in Redis. Nothing is sent before `connect`.
 * @param longestBlockMs maximum time in milliseconds that a blocking command of the consumer waits for a job
 */
export function openRedisConnections(url: string, longestBlockMs: number, log: Logger): RedisConnections {
  const retryStrategy = (times: number) => Math.min(times * 100, 2_000);
  const warn = throttleWarnings(log);
  const logLostConnection = (error: unknown) => warn({ event: 'redis_connection_lost', ...errorFields(error) });
  const producer = new Redis(url, {
    maxRetriesPerRequest: 1,
    enableOfflineQueue: false,
    commandTimeout: redisAnswerMs,
    // Without it, a connection on which nothing is answered would be kept, and every command on it would time out.
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
  producer.on('error', logLostConnection);
  consumer.on('error', logLostConnection);
  return {
    producer,
    consumer,
    connect: () => Promise.all([producer.connect(), consumer.connect()]),
    close: async () => {
      producer.disconnect();
      consumer.disconnect();
    },
  };
}

/**
 * Returns the answer of Redis to INFO: server, memory, persistence.
 * @throws Error if Redis cannot be reached
 */
export async function readRedisInfo(url: string): Promise<string> {
  const redis = new Redis(url, {
    maxRetriesPerRequest: 1,
    commandTimeout: redisAnswerMs,
    retryStrategy: () => null,
    lazyConnect: true,
  });
  // The error of the call says only that the connection is closed. The event has the cause.
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
