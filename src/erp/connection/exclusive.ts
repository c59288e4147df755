import { sql } from 'kysely';
import { tryLockName } from './locks.ts';
import type { Database } from './pool.ts';

/**
 * Runs `work`, unless another process is running work of the same name.
 * @returns false if another process runs it
 */
export async function tryRunExclusively(db: Database, name: string, work: () => Promise<void>): Promise<boolean> {
  return db.transaction().execute(async (trx) => {
    // The work happens outside this database. The lock must last until the work ends.
    await sql`set local idle_in_transaction_session_timeout = '60s'`.execute(trx);
    if (!(await tryLockName(trx, name))) return false;
    await work();
    return true;
  });
}
