import { Redis } from 'ioredis';
import { growPauseMs, pauses } from '../core/backoff.ts';
import { CodedError, describeError } from '../core/errors.ts';
import { errorFields, type Logger, silentLogger, throttleWarnings } from '../core/logger.ts';
import { findTlsError } from '../core/tls-error.ts';
import '../db/address-timeout.ts';

/** Timeout of an answer of Redis, in milliseconds. */
const redisAnswerMs = 5_000;

/**
 * Prepares the two connections that BullMQ needs: one that fails fast, and one that may block while
 * it waits for a job. Nothing is sent before `connect`.
 * @param longestBlockMs maximum time in milliseconds that a blocking command of the consumer waits
 *   for a job
 */
export function openRedisConnections(url: string, longestBlockMs: number, log: Logger) {
  const retryStrategy = (times: number) => growPauseMs(pauses.redis, times);
  const warn = throttleWarnings(log);

  const producer = new Redis(url, {
    maxRetriesPerRequest: 1,
    enableOfflineQueue: false,
    commandTimeout: redisAnswerMs,
    // Without it, a connection on which nothing is answered would be kept, and every command on it
    // would time out.
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

  const report = (error: Error) => warn({ event: 'redis_connection_lost', ...errorFields(error) });
  const connects = [producer, consumer].map((redis) => {
    const explain = watchRedis(redis, url, report);
    return () => explain(() => redis.connect());
  });

  return {
    producer,
    consumer,
    // Waits for both: a TLS handshake that is under way while its connection is closed would end
    // the process.
    connect: async () => {
      const results = await Promise.allSettled(connects.map((connect) => connect()));
      for (const result of results) if (result.status === 'rejected') throw result.reason;
    },
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
  const { producer, connect, close } = openRedisConnections(url, redisAnswerMs, silentLogger);
  try {
    await connect();
    return await producer.info();
  } finally {
    await close();
  }
}

/**
 * Listens to the errors of a connection, which the error of `connect` does not name: it says only
 * that the connection is closed.
 * @param report receives each error, as `explainRedisError` returns it
 * @returns a function that runs the first use of the connection, and throws the error that closed
 *   the connection
 */
function watchRedis(redis: Redis, url: string, report: (error: Error) => void) {
  let last: Error | null = null;
  let hasBeenReady = false;
  redis.on('ready', () => {
    hasBeenReady = true;
  });
  redis.on('error', (error: Error) => {
    // The TLS settings of a connection that was once ready do fit.
    last = explainRefusedLogin(error) ?? (hasBeenReady ? error : explainRedisError(error, url));
    report(last);
  });

  return async <T>(use: () => Promise<T>): Promise<T> => {
    try {
      return await use();
    } catch (error) {
      if (error instanceof Error && error.name === 'ReplyError') throw error;
      // If the other side closes the connection in good order, there is no error that says more.
      const reason =
        last ?? (!hasBeenReady && isClosed(error) ? explainRedisError(error, url) : null);
      if (reason === null) throw error;
      throw reason instanceof CodedError
        ? reason
        : new CodedError('redis_unreachable', describeError(reason));
    }
  };
}

/** First words of replies with which Redis refuses a login. */
const refusedLogin = /^(NOAUTH|WRONGPASS|NOPERM|ERR invalid password)\b/;

/** Returns the error of a refused login with what to do; null for any other error. */
const explainRefusedLogin = ({ name, message }: Error): CodedError | null =>
  name === 'ReplyError' && refusedLogin.test(message)
    ? new CodedError('redis_login_refused', 'Redis refuses the login', {
        remedy:
          'correct the password in REDIS_URL ' +
          '(redis://:password@host:6379, or redis://user:password@host:6379)',
      })
    : null;

/**
 * Returns the error of a first connection with what to do about TLS. If one side speaks TLS and the
 * other does not, Redis closes the connection or says nothing.
 */
function explainRedisError(error: Error, url: string): Error {
  const tlsError = findTlsError(error, 'redis');
  if (tlsError !== null) return tlsError;
  if (!['ECONNRESET', 'EPIPE', 'ETIMEDOUT'].includes(readCode(error)) && !isClosed(error))
    return error;
  const hint = url.startsWith('rediss:')
    ? 'REDIS_URL begins with rediss://, so it must lead to the tls-port of Redis, ' +
      'and redis.conf needs tls-auth-clients no'
    : 'if this port is the tls-port of Redis, REDIS_URL must begin with rediss://';
  return new CodedError('redis_unreachable', `${describeError(error)}; TLS: ${hint}`);
}

/**
 * Returns whether this is the error of ioredis for commands whose connection was closed. It has no
 * code.
 */
const isClosed = (error: unknown): error is Error =>
  error instanceof Error && error.message === 'Connection is closed.';

const readCode = (error: Error) => ('code' in error ? String(error.code) : '');
