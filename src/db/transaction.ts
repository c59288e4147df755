import { type Kysely, type RawBuilder, sql, type Transaction } from 'kysely';
import { readFailureCodes } from '../core/errors.ts';
import type { DB } from './generated/tables.ts';
import type { Database } from './pool.ts';

/**
 * The SQLSTATEs after which a transaction is repeated: deadlock, serialization failure and lock
 * timeout.
 */
const repeatableStates = new Set(['40P01', '40001', '55P03']);

const maxAttempts = 5;

/**
 * Runs `work` in one transaction. Repeats it after a deadlock, a serialization failure or a lock
 * timeout, up to 5 times in all. Therefore `work` must be repeatable.
 * @param waitForLocks if false, a lock timeout is thrown at once. The caller then leaves out what
 *   is locked.
 */
export function inTransaction<T>(
  db: Database,
  work: (trx: Transaction<DB>) => Promise<T>,
  options: { readonly waitForLocks?: boolean } = {},
): Promise<T> {
  return repeatAfterConflict(() => db.transaction().execute(work), options);
}

/** Runs a statement or a transaction, and repeats it as `inTransaction` does. */
export async function repeatAfterConflict<T>(
  work: () => Promise<T>,
  { waitForLocks = true } = {},
): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      const isConflict = repeatableStates.has(readSqlState(error));
      const mayRepeat = waitForLocks || !isLockTimeout(error);
      if (attempt >= maxAttempts || !isConflict || !mayRepeat) throw error;
    }
  }
}

/**
 * Returns whether the database refuses the data itself: a value out of range, invalid text, or too
 * deep nesting.
 */
export function isDataRefused(error: unknown): boolean {
  return /^(22|54)/.test(readSqlState(error));
}

/** Returns whether a constraint, or a trigger in its name, refuses the data. */
export const isConstraintViolated = (error: unknown): boolean =>
  readSqlState(error).startsWith('23');

/** Returns whether another session held a lock for longer than lock_timeout. */
export function isLockTimeout(error: unknown): boolean {
  return readSqlState(error) === '55P03';
}

/**
 * Returns whether the database cancelled a statement: usually because it took longer than
 * statement_timeout.
 */
export function isCancelled(error: unknown): boolean {
  return readSqlState(error) === '57014';
}

/** Returns the SQLSTATE of a Postgres error; empty for any other error. */
export function readSqlState(error: unknown): string {
  return error instanceof Error && 'code' in error && typeof error.code === 'string'
    ? error.code
    : '';
}

/**
 * Returns true if Postgres cannot write because its disk is full: rows, or what a new session
 * needs.
 */
export const isDiskFull = (error: unknown): boolean => readFailureCodes(error).code === 'disk_full';

/**
 * Returns true if Postgres has no room for 1 MB: a result beyond work_mem goes to a file, which it
 * deletes at once.
 */
export async function hasFullDisk(db: Database): Promise<boolean> {
  try {
    await inTransaction(db, async (trx) => {
      await sql`set local work_mem = '64kB'`.execute(trx);
      await sql`select count(*) from generate_series(1, 60000)`.execute(trx);
    });
    return false;
  } catch (error) {
    if (isDiskFull(error)) return true;
    throw error;
  }
}

/**
 * Returns a CTE `locked`. It locks the name until the transaction ends; it has no row if the name
 * does not exist yet. The name is a row of sync.locks, not an advisory lock: any role that may
 * connect could take an advisory lock and keep it.
 */
export const lockingCte = (name: string) => sql`
  locked as materialized (select from sync.locks where name = ${name} for update)`;

/** Creates a name, so that it can be locked. */
async function createLock(trx: Kysely<DB>, name: string): Promise<void> {
  await trx
    .insertInto('sync.locks')
    .values({ name })
    .onConflict((conflict) => conflict.doNothing())
    .execute();
}

/** Locks a name until the transaction ends. Waits for the transaction that holds it. */
export async function lockName(trx: Transaction<DB>, name: string): Promise<void> {
  await selectLocked(trx, name, sql`with ${lockingCte(name)} select from locked`);
}

/**
 * Returns the row of a statement that selects from `lockingCte(name)`. Creates the name before, if
 * it does not exist.
 */
export async function selectLocked<T>(
  trx: Transaction<DB>,
  name: string,
  statement: RawBuilder<T>,
): Promise<T> {
  const select = async () => (await statement.execute(trx)).rows[0];
  const row = await select();
  if (row !== undefined) return row;

  await createLock(trx, name);
  return (await select()) as T;
}

/** Locks a name until the transaction ends. Returns false if another transaction holds it. */
async function tryLockName(trx: Transaction<DB>, name: string): Promise<boolean> {
  await createLock(trx, name);

  const locked = trx
    .selectFrom('sync.locks')
    .select('name')
    .where('name', '=', name)
    .forUpdate()
    .skipLocked();
  return (await locked.executeTakeFirst()) !== undefined;
}

/**
 * Runs `work`, unless another process is running work of the same name.
 * @returns false if another process runs it
 */
export async function tryRunExclusively(
  db: Database,
  name: string,
  work: () => Promise<void>,
): Promise<boolean> {
  return db.transaction().execute(async (trx) => {
    // The work happens outside this database. The lock must last until the work ends.
    await sql`set local idle_in_transaction_session_timeout = '60s'`.execute(trx);

    if (!(await tryLockName(trx, name))) return false;

    await work();
    return true;
  });
}
