import { setTimeout as wait } from 'node:timers/promises';
import { CodedError } from '../../core/errors.ts';

/** Timeout of a read in milliseconds. A scrape or a probe gives up after about ten seconds. */
const readTimeoutMs = 3_000;

/**
 * Waits for a read, but not for long. Without this, a database that does not answer would also delay everything that
 * does not need it.
 * @throws CodedError `not_in_time`
 */
export async function withReadTimeout<T>(read: Promise<T>): Promise<T> {
  const done = new AbortController();
  const late = wait(readTimeoutMs, undefined, { signal: done.signal }).then(() => {
    throw new CodedError('not_in_time', `There was no answer within ${readTimeoutMs / 1_000} s`);
  });
  try {
    return await Promise.race([read, late]);
  } finally {
    done.abort();
  }
}
