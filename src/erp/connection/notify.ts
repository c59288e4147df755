import { type Kysely, sql } from 'kysely';
import type { DB } from '../generated/tables.ts';

/**
 * Notifies all pushers that outbox rows may be due. An insert into the outbox sends the same notification, and
 * leaves it out too while the queue of notifications is half full.
 * @param payload not empty if outcomes were noted that are to be entered into the feed
 */
export async function notifyPushers(db: Kysely<DB>, payload: '' | 'outcomes' = ''): Promise<void> {
  await db
    .selectNoFrom(sql`pg_notify('fulfilment_outbox', ${payload})`.as('told'))
    .where(sql<boolean>`pg_notification_queue_usage() < 0.5`)
    .execute();
}
