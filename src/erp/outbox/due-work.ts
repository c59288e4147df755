import { type Kysely, sql } from 'kysely';
import type { DB } from '../generated/tables.ts';
import type { ClientAccount } from '../runs/clients.ts';
import { pausedSince } from '../runs/pauses.ts';
import { type CurrentHealth, holds } from './holds.ts';

/** SQL: true if rows may be sent from this database, and pushes of this client are not paused. */
export const mayPush = (client: unknown) =>
  sql`((select sync.pushes_allowed()) and ${pausedSince(client, 'push-outbox')} is null)`;

/** Work that is due for a client. */
export interface DueWork {
  readonly client: string;
  /** Milliseconds until the next row is due to be sent, without kinds on push hold. Null: there is none. */
  readonly pendingInMs: number | null;
  /** Milliseconds until the next look-up is due. Null: there is none. */
  readonly unknownInMs: number | null;
  /** Health of the client and of its kinds, if they are on push hold, were on hold or had failures recently. */
  readonly health: readonly CurrentHealth[];
}

/** Which kinds to look for. */
export interface DueKinds {
  /** The kinds that the worker can send. */
  readonly names: readonly string[];
  /** The kinds that are looked up when their outcome is unknown. */
  readonly lookedUp: readonly string[];
}

/**
 * Reads the due work of each client. Clients without rows and without trouble are left out, and so are clients for
 * which nothing may be pushed.
 */
export async function readDueWork(
  db: Kysely<DB>,
  clients: readonly ClientAccount[],
  kinds: DueKinds,
): Promise<DueWork[]> {
  const { rows } = await sql<DueWork>`
    select c.client, (
        select min(d.in_ms)
        from unnest(${kinds.names}::text[]) as k (kind)
        cross join lateral (
          select (extract(epoch from o.next_attempt_at - clock_timestamp()) * 1000)::float8 as in_ms
          from fulfilment.outbox o
          where o.client = c.client and o.kind = k.kind and o.status = 'pending'
          order by o.next_attempt_at
          limit 1
        ) d
        -- Most clients have no rows: then one search is enough for all kinds.
        where exists (select from fulfilment.outbox o where o.client = c.client and o.status = 'pending')
          and not exists (
            select from sync.push_holds h where h.client = c.client and h.kind = k.kind and ${holds})
      ) as "pendingInMs", (
        select (extract(epoch from min(o.next_attempt_at) - clock_timestamp()) * 1000)::float8
        from fulfilment.outbox o
        where o.client = c.client and o.status = 'unknown' and o.kind = any(${kinds.lookedUp}::text[])
      ) as "unknownInMs",
      coalesce((
        select json_agg(json_build_object('kind', h.kind, 'code', h.code, 'sendWindow', h.send_window,
          'untilInMs', extract(epoch from h.until - clock_timestamp())::float8 * 1000))
        from sync.push_holds h
        where h.client = c.client
      ), '[]') as health
    from unnest(${clients.map(({ client }) => client)}::text[],
      ${clients.map(({ identity }) => identity)}::text[]) as c (client, identity)
    where ${mayPush(sql`c.client`)}
      and exists (select from sync.clients k where k.client = c.client and k.identity = c.identity)`.execute(db);
  const toNonNegative = (ms: number | null) => (ms === null ? null : Math.max(0, ms));
  return rows
    .filter(({ pendingInMs, unknownInMs, health }) => pendingInMs !== null || unknownInMs !== null || health.length > 0)
    .map((row) => ({
      ...row,
      pendingInMs: toNonNegative(row.pendingInMs),
      unknownInMs: toNonNegative(row.unknownInMs),
    }));
}

/** Time that a row waits for a worker that is set up with its client. */
const unknownClientSpan = sql`interval '10 minutes'`;
/** Maximum number of rows that one call marks dead. */
const maxMarked = 1_000;

/** A row that no worker can send. */
export interface UnsendableRow {
  readonly id: number;
  readonly client: string;
  readonly code: 'unknown_kind' | 'unknown_client';
}

/**
 * Marks rows dead that no worker can send, whatever is in front of them in their lane: rows of a kind that this version
 * of the database does not have, and rows whose client no worker was ever set up with, ten minutes after their
 * insertion. Rows of a known client that this worker does not serve stay as they are.
 */
export async function markUnsendableRowsDead(db: Kysely<DB>, worker: string): Promise<UnsendableRow[]> {
  const { rows } = await sql<UnsendableRow>`
    with recursive named (client, kind) as (
      -- Each pair is found from the one before by the index: the table may hold many rows.
      (select o.client, o.kind from fulfilment.outbox o where o.status = 'pending' order by o.client, o.kind limit 1)
      union all
      select p.client, p.kind
      from named n
      cross join lateral (
        select o.client, o.kind
        from fulfilment.outbox o
        where o.status = 'pending' and (o.client, o.kind) > (n.client, n.kind)
        order by o.client, o.kind
        limit 1
      ) p
    ), unsendable as (
      select n.client, n.kind, k.kind is null as is_unknown_kind
      from named n
      left join sync.outbox_kinds k on k.kind = n.kind
      where k.kind is null or not exists (select from sync.clients c where c.client = n.client)
      limit ${maxMarked}
    ), marked as (
      update fulfilment.outbox o
      set status = 'dead', next_attempt_at = null, finished_at = statement_timestamp(),
        last_error = case
          when f.is_unknown_kind then format('there is no kind %s; known are %s', o.kind,
            (select string_agg(k.kind, ', ' order by k.kind collate "C") from sync.outbox_kinds k))
          else format('no worker was ever set up with client %s; known are %s', o.client,
            left(coalesce((select string_agg(k.client, ', ' order by k.client) from sync.clients k), 'none'), 3000)) end
      from (
        select p.id, u.is_unknown_kind
        from unsendable u
        join fulfilment.outbox p on p.client = u.client and p.kind = u.kind and p.status = 'pending'
        where u.is_unknown_kind or p.created_at < statement_timestamp() - ${unknownClientSpan}
        limit ${maxMarked}
        for update of p skip locked
      ) f
      where o.id = f.id
      returning o.id, o.client, o.last_error,
        case when f.is_unknown_kind then 'unknown_kind' else 'unknown_client' end as code
    ), noted as (
      insert into sync.outbox_attempts (outbox_id, step, by, became, error_code, error)
      select id, 'sent', ${worker}, 'dead', code, last_error
      from marked
    )
    select id, client, code
    from marked`.execute(db);
  return rows;
}
