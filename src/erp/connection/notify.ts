import { type Kysely, sql } from 'kysely';
import type { DB } from '../generated/tables.ts';

/** Notifies all pushers that outbox rows may be due. An insert into the outbox sends the same notification. */
export async function notifyPushers(db: Kysely<DB>): Promise<void> {
  await db.selectNoFrom(sql`pg_notify('fulfilment_outbox', '')`.as('told')).execute();
}
