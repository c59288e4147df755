import { type Kysely, type RawBuilder, sql } from 'kysely';
import type { DB } from '../generated/tables.ts';
import type { Own } from '../runs/clients.ts';
import { pausedSince } from '../runs/pauses.ts';
import { holds } from './holds.ts';

/** Kinds of which due rows are looked for; an ERP may write any number of them into rows. */
const mostKinds = 64;

/**
 * SQL: true if rows are sent from this database, this account is the one that the client's rows go to, and its pushes are not
 * paused.
 */
export const mayPush = (client: unknown, identity: unknown) => sql`
  (select sync.pushes_allowed())
  and exists (select from sync.clients k where k.client = ${client} and k.identity = ${identity})
  and ${pausedSince(client, 'push-outbox')} is null`;

/**
 * SQL: a recursive CTE `named (kind, place)` of the kinds of a client's pending rows, found from one to the next by the
 * index. Backwards: at its front stand many entries of rows that were claimed lately, which it would go through each time.
 * @param where a condition without which there are none
 */
export function pendingKinds(client: unknown, where: RawBuilder<unknown> = sql`true`) {
  const next = (after: RawBuilder<unknown>) => sql`(
    select o.kind from fulfilment.outbox o where o.client = ${client} and o.status = 'pending' ${after}
    order by o.kind desc, o.next_attempt_at desc limit 1)`;
  return sql`named (kind, place) as (
    select ${next(sql``)}, 1 where ${where}
    union all
    select ${next(sql`and o.kind < n.kind`)}, n.place + 1 from named n
      where n.kind is not null and n.place < ${mostKinds}
  )`;
}

/** What there is to do for a client. */
export interface Due {
  readonly client: string;
  /** Until the next row is to be sent, not counting kinds that are held; null: there is none. */
  readonly pendingInMs: number | null;
  /** Until the next row is to be looked up; null: there is none. */
  readonly unknownInMs: number | null;
  /** Something is held, was held lately, or failed lately. */
  readonly isTroubled: boolean;
  /** The service refused rows with 429: there is a rate to be kept. */
  readonly isLimited: boolean;
}

/**
 * What there is to do for each client. Clients without rows are left out, and those for which nothing may be pushed.
 * @param lookedUp kinds that are looked up where it is not known what became of them
 */
export async function nextDueByClient(
  db: Kysely<DB>,
  clients: readonly Own[],
  lookedUp: readonly string[],
): Promise<Due[]> {
  const { rows } = await sql<Due>`
    select c.client, (
        with recursive ${pendingKinds(sql`c.client`)}
        select min(d.in_ms) from named n cross join lateral (
          select (extract(epoch from o.next_attempt_at - clock_timestamp()) * 1000)::float8 as in_ms
          from fulfilment.outbox o where o.client = c.client and o.kind = n.kind and o.status = 'pending'
          order by o.next_attempt_at limit 1
        ) d
        where n.kind is not null and not exists (
          select from sync.push_holds h where h.client = c.client and h.kind = n.kind and ${holds})
      ) as "pendingInMs", (
        select (extract(epoch from min(o.next_attempt_at) - clock_timestamp()) * 1000)::float8
        from fulfilment.outbox o
        where o.client = c.client and o.status = 'unknown' and o.kind = any(${lookedUp}::text[])) as "unknownInMs",
      exists (select from sync.push_holds h where h.client = c.client) as "isTroubled",
      exists (select from sync.push_rates r where r.client = c.client) as "isLimited"
    from unnest(${clients.map(({ client }) => client)}::text[],
      ${clients.map(({ identity }) => identity)}::text[]) as c (client, identity)
    where ${mayPush(sql`c.client`, sql`c.identity`)}`.execute(db);
  const atLeastNow = (ms: number | null) => (ms === null ? null : Math.max(0, ms));
  return rows
    .filter(({ pendingInMs, unknownInMs, isTroubled }) => pendingInMs !== null || unknownInMs !== null || isTroubled)
    .map((row) => ({
      ...row,
      pendingInMs: atLeastNow(row.pendingInMs),
      unknownInMs: atLeastNow(row.unknownInMs),
    }));
}

/** How long a row may wait for its client to be set up for the first time. */
const strangerSpan = sql`interval '10 minutes'`;

/**
 * Ends rows of clients that no worker was ever set up with, ten minutes after they were inserted. Rows of a client that
 * is known, but not served by this worker, are left alone: another worker may serve it, or will.
 * @returns the number of rows, at most a thousand at a time
 */
export async function buryStrangers(db: Kysely<DB>, worker: string): Promise<number> {
  // From one client to the next by the index: the table may hold many rows.
  const { rows } = await sql`
    with recursive named as (
      (select o.client from fulfilment.outbox o where o.status = 'pending' order by o.client limit 1)
      union all
      select (select o.client from fulfilment.outbox o where o.status = 'pending' and o.client > n.client
              order by o.client limit 1)
      from named n
      where n.client is not null
    ), buried as (
      update fulfilment.outbox o
      set status = 'dead', next_attempt_at = null, finished_at = statement_timestamp(),
        last_error = format('no worker was ever set up with client %s; known are %s', o.client,
          coalesce((select string_agg(k.client, ', ' order by k.client) from sync.clients k), 'none'))
      where o.id in (
        select p.id from named n join fulfilment.outbox p on p.client = n.client and p.status = 'pending'
        where not exists (select from sync.clients k where k.client = n.client)
          and p.created_at < statement_timestamp() - ${strangerSpan}
        limit 1000 for update of p skip locked)
      returning o.id, o.last_error
    )
    insert into sync.outbox_attempts (outbox_id, step, by, became, error_code, error)
    select id, 'sent', ${worker}, 'dead', 'unknown_client', last_error
    from buried
    returning 1`.execute(db);
  return rows.length;
}
