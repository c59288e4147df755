import { setTimeout as wait } from 'node:timers/promises';
import { CodedError } from '../../core/errors.ts';

/** Whoever scrapes or probes gives up after some ten seconds, and would hear nothing at all. */
const withinMs = 3_000;

/**
 * What a read brings, if it does so soon: a network that swallows everything must not keep what can be told from being told.
 * @throws CodedError `not_in_time`
 */
export async function inTime<T>(read: Promise<T>): Promise<T> {
  const done = new AbortController();
  const late = wait(withinMs, undefined, { signal: done.signal }).then(() => {
    throw new CodedError('not_in_time', `It was not read within ${withinMs / 1_000} s`);
  });
  try {
    return await Promise.race([read, late]);
  } finally {
    done.abort();
  }
}
