import { sql } from 'kysely';
import type { Database } from './connect.ts';

/**
 * Runs `work` unless another process is running work of the same name.
 * @returns whether it ran
 */
export async function tryExclusively(db: Database, name: string, work: () => Promise<void>): Promise<boolean> {
  return db.transaction().execute(async (trx) => {
    const { rows } = await sql<{ locked: boolean }>`
      select pg_try_advisory_xact_lock(hashtext('fulfilment-sync'), hashtext(${name})) as locked`.execute(trx);
    if (!rows[0]?.locked) return false;
    await work();
    return true;
  });
}
