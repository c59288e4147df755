import { type Kysely, sql } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';

/**
 * Says that this worker looks for due rows of these clients by itself, so that inserts need not
 * notify it. Notifies the other workers of clients for which none was awake: they look when the
 * time is over, in case this worker is lost.
 * @param forMs milliseconds after which it may not look any more
 */
export async function sayAwake(
  db: Kysely<DB>,
  clients: readonly string[],
  forMs: number,
): Promise<void> {
  await sql`
    with former as materialized (
      select a.client
      from sync.awake_clients a
      where a.client = any(${clients}::text[])
        and a.awake_until between clock_timestamp() and clock_timestamp() + interval '5 seconds'
    ), promised as (
      insert into sync.awake_clients as a (client, awake_until)
      select c.client, clock_timestamp() + make_interval(secs => ${forMs / 1_000})
      from unnest(${clients}::text[]) as c (client)
      order by c.client
      on conflict (client) do update set awake_until = excluded.awake_until
      where a.awake_until < excluded.awake_until or a.awake_until > clock_timestamp()
        + interval '5 seconds'
      returning client
    )
    select pg_notify('fulfilment_outbox', '')
    where exists (select client from promised except select client from former)
      and pg_notification_queue_usage() < 0.5`.execute(db);
}
