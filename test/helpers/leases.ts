import { sql } from 'kysely';
import type { TestDatabase } from './database.ts';

/**
 * Ends the leases and claims of workers that were killed or stopped, as if their ten seconds had
 * passed. Call it only when those workers cannot renew them. A worker that was stopped within a
 * transaction keeps its lease locked until the server ends the transaction after five seconds. This
 * function waits for that.
 */
export async function expireLeases({ db }: TestDatabase): Promise<void> {
  await db.transaction().execute(async (trx) => {
    await sql`set local lock_timeout = '60s'`.execute(trx);
    await sql`update sync.leases set expires_at = clock_timestamp() where expires_at is not null`.execute(
      trx,
    );
    await sql`update fulfilment.outbox set lease_until = clock_timestamp() where status = 'sending'`.execute(
      trx,
    );
  });
}
