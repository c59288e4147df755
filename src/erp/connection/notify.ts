import { type Kysely, sql } from 'kysely';
import type { DB } from '../generated/tables.ts';

/** Tells all pushers that rows may be due, as an insert does. */
export async function notifyPushers(db: Kysely<DB>): Promise<void> {
  await db.selectNoFrom(sql`pg_notify('fulfilment_outbox', '')`.as('told')).execute();
}
