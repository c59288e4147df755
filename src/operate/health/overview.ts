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

/** The current state, and the problems that it shows. */
export interface Overview extends CurrentState {
  readonly problems: readonly Problem[];
}

/** Reads the current state, and finds its problems. Everything that shows problems begins here. */
export async function readOverview(
  db: Database,
  config: Config,
  diskFullSince: Date | null = null,
): Promise<Overview> {
  const state = await readCurrentState(db, config, diskFullSince);
  return { ...state, problems: findProblems(state, config) };
}

/**
 * Returns the function with which all parts of the admin server read the overview. It reuses a
 * result for a while. Callers at the same time wait for the same result.
 */
export function openOverviewReader(
  db: Database,
  config: Config,
  diskFullSince: () => Date | null = () => null,
): () => Promise<Overview> {
  let reading: Promise<Overview> | undefined;

  return () => {
    if (reading !== undefined) return reading;

    reading = readOverview(db, config, diskFullSince());
    const forget = () => {
      reading = undefined;
    };
    // The time starts when the result is there, so a slow read is not started twice. A failure is
    // not reused.
    reading.then(() => setTimeout(forget, cacheMs).unref(), forget);
    return reading;
  };
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
