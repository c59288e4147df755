import type { Transaction } from 'kysely';
import type { DB } from '../generated/tables.ts';
import type { Database } from './pool.ts';

/** The SQLSTATEs after which a transaction is repeated: deadlock, serialization failure and lock timeout. */
const repeatableStates = new Set(['40P01', '40001', '55P03']);
const maxAttempts = 5;

/**
 * Runs `work` in one transaction. Repeats it after a deadlock, a serialization failure or a lock timeout, up to 5 times
 * in all. Therefore `work` must be repeatable.
 * @param waitForLocks if false, a lock timeout is thrown at once. The caller then leaves out what is locked.
 */
export function inTransaction<T>(
  db: Database,
  work: (trx: Transaction<DB>) => Promise<T>,
  options: { readonly waitForLocks?: boolean } = {},
): Promise<T> {
  return repeatAfterConflict(() => db.transaction().execute(work), options);
}

/** Runs a statement or a transaction, and repeats it as `inTransaction` does. */
export async function repeatAfterConflict<T>(work: () => Promise<T>, { waitForLocks = true } = {}): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      if (
        attempt >= maxAttempts ||
        !repeatableStates.has(readSqlState(error)) ||
        (!waitForLocks && isLockTimeout(error))
      )
        throw error;
    }
  }
}

/** Returns whether the database refuses the data itself: a value out of range, invalid text, or too deep nesting. */
export function isDataRefused(error: unknown): boolean {
  return /^(22|54)/.test(readSqlState(error));
}

/** Returns whether another session held a lock for longer than lock_timeout. */
export function isLockTimeout(error: unknown): boolean {
  return readSqlState(error) === '55P03';
}

/** Returns whether the database cancelled a statement: usually because it took longer than statement_timeout. */
export function isCancelled(error: unknown): boolean {
  return readSqlState(error) === '57014';
}

/** Returns the SQLSTATE of a Postgres error; empty for any other error. */
export function readSqlState(error: unknown): string {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : '';
}
