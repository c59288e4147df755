import { type Kysely, type RawBuilder, sql } from 'kysely';
import type { DB } from '../generated/tables.ts';
import type { ClientAccount } from '../runs/clients.ts';
import { pausedSince } from '../runs/pauses.ts';
import { holds } from './holds.ts';

/** Maximum number of kinds that are searched for due rows: an ERP can write any number of kinds into rows. */
const maxKinds = 64;

/**
 * SQL: true if rows may be sent from this database, this account is the accepted one of the client, and its pushes are
 * not paused.
 */
export const mayPush = (client: unknown, identity: unknown) => sql`
  (select sync.pushes_allowed())
  and exists (select from sync.clients k where k.client = ${client} and k.identity = ${identity})
  and ${pausedSince(client, 'push-outbox')} is null`;

/**
 * SQL: a recursive CTE `named (kind, place)` of the kinds of a client's pending rows. It finds each kind from the one
 * before by the index. It walks backwards, because the front of the index holds many dead entries of recently claimed
 * rows.
 * @param where a condition; if it is false, the CTE is empty
 */
export function pendingKinds(client: unknown, where: RawBuilder<unknown> = sql`true`) {
  const next = (after: RawBuilder<unknown>) => sql`(
    select o.kind from fulfilment.outbox o where o.client = ${client} and o.status = 'pending' ${after}
    order by o.kind desc, o.next_attempt_at desc limit 1)`;
  return sql`named (kind, place) as (
    select ${next(sql``)}, 1 where ${where}
    union all
    select ${next(sql`and o.kind < n.kind`)}, n.place + 1 from named n
      where n.kind is not null and n.place < ${maxKinds}
  )`;
}

/** Work that is due for a client. */
export interface DueWork {
  readonly client: string;
  /** Milliseconds until the next row is due to be sent, without kinds on push hold. Null: there is none. */
  readonly pendingInMs: number | null;
  /** Milliseconds until the next look-up is due. Null: there is none. */
  readonly unknownInMs: number | null;
  /** True if the client or one of its kinds is on push hold, was on hold or had failures recently. */
  readonly isTroubled: boolean;
  /** True if the service answered 429: a send rate is in force. */
  readonly isLimited: boolean;
}

/**
 * Reads the due work of each client. Clients without rows and without trouble are left out, and so are clients for
 * which nothing may be pushed.
 * @param lookedUp kinds that are looked up when their outcome is unknown
 */
export async function readDueWork(
  db: Kysely<DB>,
  clients: readonly ClientAccount[],
  lookedUp: readonly string[],
): Promise<DueWork[]> {
  const { rows } = await sql<DueWork>`
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
  const toNonNegative = (ms: number | null) => (ms === null ? null : Math.max(0, ms));
  return rows
    .filter(({ pendingInMs, unknownInMs, isTroubled }) => pendingInMs !== null || unknownInMs !== null || isTroubled)
    .map((row) => ({
      ...row,
      pendingInMs: toNonNegative(row.pendingInMs),
      unknownInMs: toNonNegative(row.unknownInMs),
    }));
}

/** Time that a row waits for a worker that is set up with its client. */
const unknownClientSpan = sql`interval '10 minutes'`;

/**
 * Marks rows dead whose client no worker was ever set up with, ten minutes after their insertion. Rows of a known
 * client that this worker does not serve stay as they are, because another worker may serve it.
 * @returns the number of rows that became dead, at most 1,000 in one call
 */
export async function markUnknownClientRowsDead(db: Kysely<DB>, worker: string): Promise<number> {
  // Find each client from the one before by the index: the table may hold many rows.
  const { rows } = await sql`
    with recursive named as (
      (select o.client from fulfilment.outbox o where o.status = 'pending' order by o.client limit 1)
      union all
      select (select o.client from fulfilment.outbox o where o.status = 'pending' and o.client > n.client
              order by o.client limit 1)
      from named n
      where n.client is not null
    ), marked as (
      update fulfilment.outbox o
      set status = 'dead', next_attempt_at = null, finished_at = statement_timestamp(),
        last_error = format('no worker was ever set up with client %s; known are %s', o.client,
          coalesce((select string_agg(k.client, ', ' order by k.client) from sync.clients k), 'none'))
      where o.id in (
        select p.id from named n join fulfilment.outbox p on p.client = n.client and p.status = 'pending'
        where not exists (select from sync.clients k where k.client = n.client)
          and p.created_at < statement_timestamp() - ${unknownClientSpan}
        limit 1000 for update of p skip locked)
      returning o.id, o.last_error
    )
    insert into sync.outbox_attempts (outbox_id, step, by, became, error_code, error)
    select id, 'sent', ${worker}, 'dead', 'unknown_client', last_error
    from marked
    returning 1`.execute(db);
  return rows.length;
}
