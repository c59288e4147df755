import { setTimeout as wait } from 'node:timers/promises';
import type { Config } from '../../../config/env.ts';
import { CodedError } from '../../core/errors.ts';
import type { Database } from '../../db/pool.ts';
import type { Problem } from './problem.ts';
import { findProblems } from './problems.ts';
import { type CurrentState, readCurrentState } from './state.ts';

/**
 * How long a result is reused, in milliseconds, so that many watchers cost the database no more
 * than one.
 */
const cacheMs = 1_500;

/** The data of the overview page. */
export interface Overview extends CurrentState {
  readonly problems: readonly Problem[];
}

/** Reuses the result of `read` for a while. Callers at the same time wait for the same result. */
function cacheBriefly<T>(read: () => Promise<T>): () => Promise<T> {
  let reading: Promise<T> | undefined;
  return () => {
    if (reading !== undefined) return reading;

    const started = read();
    const forget = () => {
      reading = undefined;
    };
    // The time starts when the result is there, so a slow read is not started twice. A failure is
    // not reused.
    started.then(() => setTimeout(forget, cacheMs).unref(), forget);

    reading = started;
    return started;
  };
}

/** Creates the functions with which all parts of the admin server read the current state. */
export function openStateReaders(
  db: Database,
  config: Config,
  diskFullSince: () => Date | null = () => null,
) {
  const readState = cacheBriefly(() => readCurrentState(db, config, diskFullSince()));

  const readOverview = cacheBriefly(async (): Promise<Overview> => {
    const state = await readState();
    return { ...state, problems: findProblems(state, config) };
  });
  return { readState, readOverview };
}

/** Timeout of a read in milliseconds. A scrape or a probe gives up after about ten seconds. */
const readTimeoutMs = 3_000;

/**
 * Waits for a read, but not for long. Without this, a database that does not answer would also
 * delay everything that does not need it.
 * @throws CodedError `not_in_time`
 */
export function withReadTimeout<T>(read: Promise<T>): Promise<T> {
  const late = wait(readTimeoutMs, undefined, { ref: false }).then(() => {
    throw new CodedError('not_in_time', `There was no answer within ${readTimeoutMs / 1_000} s`);
  });
  return Promise.race([read, late]);
}
