/**
 * The receivers of deliveries. The order of locks is: event_checkpoint or turns, receivers,
 * deliveries.
 */

import { type Kysely, sql, type Transaction } from 'kysely';
import type { EventType } from '../../../config/events.ts';
import type { DB } from '../../db/generated/tables.ts';
import type { Database } from '../../db/pool.ts';
import { inTransaction } from '../../db/transaction.ts';
import { promoteHeads } from './delivery-lanes.ts';

/** A receiver, and which events it gets. Null: all. */
export interface RegisteredReceiver {
  readonly name: string;
  readonly kind: 'event' | 'alert';
  readonly types: readonly EventType[] | null;
  readonly clients: readonly string[] | null;
}

/** Name of the receiver of problems. No subscriber can have it. */
export const alertReceiver = 'ALERT_WEBHOOK_URL';

/**
 * Registers the receivers of a worker. A new one gets the changes after this moment. Deliveries
 * that wait for one whose types or clients are fewer now are deleted.
 */
export function registerReceivers(
  db: Database,
  receivers: readonly RegisteredReceiver[],
): Promise<void> {
  return inTransaction(db, async (trx) => {
    await startCheckpoint(trx, false);

    await sql`
      insert into sync.receivers as r (name, kind, types, clients)
      select n.name, n.kind, n.types, n.clients
      from jsonb_to_recordset(${JSON.stringify(receivers)}::jsonb)
        as n (name text, kind text, types text[], clients text[])
      order by n.name
      on conflict (name) do update
      set types = excluded.types, clients = excluded.clients, seen_at = now()`.execute(trx);

    await dropUnwanted(
      trx,
      receivers.map(({ name }) => name),
    );
  });
}

/** Returns true if a worker has had a receiver of events within about 7 days. */
export async function hasEventReceivers(db: Kysely<DB>): Promise<boolean> {
  const { rows } = await sql`
    select from sync.receivers
    where kind = 'event'
    limit 1`.execute(db);
  return rows.length > 0;
}

/** Deletes the waiting events that their receivers no longer want. */
async function dropUnwanted(trx: Transaction<DB>, names: readonly string[]): Promise<void> {
  const { rows } = await sql<{ receiver: string; lane: string }>`
    delete from sync.deliveries d
    using sync.receivers r
    where r.name = any(${names}::text[]) and r.kind = 'event' and d.receiver = r.name
      and d.status = 'waiting'
      and (d.type <> all(r.types) or d.client <> all(r.clients))
    returning d.receiver, d.lane`.execute(trx);

  await promoteHeads(trx, rows);
}

/**
 * Sets the place in the feed that events are made from to the newest change.
 * @param move false if a place that exists stays
 */
export async function startCheckpoint(trx: Transaction<DB>, move: boolean): Promise<void> {
  // Only committed entries count: an entry that is still being written has a larger seq.
  await sql`
    insert into sync.event_checkpoint as c (seq)
    select coalesce((select f.seq from fulfilment.changes f order by f.seq desc limit 1),
      m.pruned_until)
    from sync.feed_mark m
    on conflict (only_row) do update
    set seq = excluded.seq
    where ${move}::boolean`.execute(trx);
}

/** Renews when a worker last had its receivers. */
export async function touchReceivers(db: Kysely<DB>, names: readonly string[]): Promise<void> {
  await sql`
    update sync.receivers
    set seen_at = now()
    where name = any(${names}::text[]) and seen_at < now() - interval '1 minute'`.execute(db);
}

/**
 * Locks receivers until the transaction ends, so that nobody else adds or finishes their
 * deliveries.
 */
export async function lockReceivers(trx: Transaction<DB>, names: readonly string[]): Promise<void> {
  await sql`
    select name
    from sync.receivers
    where name = any(${names}::text[])
    order by name
    for update`.execute(trx);
}
