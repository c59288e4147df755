import { sql } from 'kysely';
import { tryLockName } from './locks.ts';
import type { Database } from './pool.ts';

/**
 * Runs `work` unless another process is running work of the same name.
 * @returns whether it ran
 */
export async function tryExclusively(db: Database, name: string, work: () => Promise<void>): Promise<boolean> {
  return db.transaction().execute(async (trx) => {
    // The work is not in this database, and the lock must last as long as it does.
    await sql`set local idle_in_transaction_session_timeout = '60s'`.execute(trx);
    if (!(await tryLockName(trx, name))) return false;
    await work();
    return true;
  });
}
