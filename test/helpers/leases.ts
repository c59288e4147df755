import type { TestDatabase } from './database.ts';

/**
 * Ends the leases and claims of workers that were killed or stopped, as if their ten seconds had passed. Call it only
 * once those workers cannot renew them.
 */
export async function expireLeases({ query }: TestDatabase): Promise<void> {
  await query('update sync.leases set expires_at = clock_timestamp() where expires_at is not null');
  await query(`update fulfilment.outbox set lease_until = clock_timestamp() where status = 'sending'`);
}
