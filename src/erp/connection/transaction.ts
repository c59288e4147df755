import type { Transaction } from 'kysely';
import type { DB } from '../generated/tables.ts';
import type { Database } from './pool.ts';

/** Deadlock, serialization failure, lock timeout: the transaction did nothing wrong and is simply made again. */
const repeatable = new Set(['40P01', '40001', '55P03']);
const maxAttempts = 5;

/**
 * Runs `work` in one transaction, again where the database asks for it. `work` must take all it writes from memory.
 * @param waitForLocks false: a lock that is not given in time is an error at once, as the caller knows what to leave out
 */
export async function inTransaction<T>(
  db: Database,
  work: (trx: Transaction<DB>) => Promise<T>,
  { waitForLocks = true } = {},
): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await db.transaction().execute(work);
    } catch (error) {
      if (attempt >= maxAttempts || !repeatable.has(sqlState(error)) || (!waitForLocks && isLockTimeout(error)))
        throw error;
    }
  }
}

/** Whether the database took offence at the data itself: a value out of range, text it cannot hold, nesting too deep. */
export function refusesData(error: unknown): boolean {
  return /^(22|54)/.test(sqlState(error));
}

/** Returns whether somebody else kept a lock for longer than lock_timeout. */
export function isLockTimeout(error: unknown): boolean {
  return sqlState(error) === '55P03';
}

/** The SQLSTATE of a Postgres error; empty for any other. */
export function sqlState(error: unknown): string {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : '';
}
