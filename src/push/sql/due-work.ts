import { type Kysely, type RawBuilder, sql } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';
import type { ClientAccount } from '../../service/sql/clients.ts';
import {
  type CurrentHealth,
  clientScope,
  everyWorker,
  holds,
  isValid,
} from '../../service/sql/service-health.ts';
import { lastLookMs } from '../waking.ts';
import { mayPush, readNewestMigration } from './claim-rows.ts';

/** Work that is due for a client. */
export interface DueWork {
  readonly client: string;
  /**
   * Milliseconds until the next row is due to be sent, without held kinds. Null: there is
   * none.
   */
  readonly pendingInMs: number | null;
  /** Milliseconds until the next look-up is due. Null: there is none. */
  readonly unknownInMs: number | null;
  /**
   * Milliseconds until no worker looks for rows of the client by itself any more, if one has said
   * that it does. Negative: since then, at most `lastLookMs`.
   */
  readonly awakeInMs: number | null;
  /**
   * Health of the client and of its kinds, if they are held, were held or had failures
   * recently.
   */
  readonly health: readonly CurrentHealth[];
}

/** Which kinds to look for. */
export interface DueKinds {
  readonly worker: string;
  /** The kinds that the worker can send. */
  readonly names: readonly string[];
  /** The kinds that are looked up when their outcome is unknown. */
  readonly lookedUp: readonly string[];
}

/**
 * SQL of a recursive query: the clients that have rows of a status. Each step is two searches of
 * indexes, from one such client to the next known one that may have some: neither clients without
 * rows, nor those that an ERP has invented, are read one by one.
 * @param order the columns of the index of such rows, which begins with the client
 */
function selectClientsWithRows(name: string, status: string, order: string): RawBuilder<unknown> {
  const self = sql.ref(name);
  const first = (where: RawBuilder<unknown>) => sql`
        select o.client
        from fulfilment.outbox o
        where o.status = ${sql.lit(status)} and ${where}
        order by ${sql.raw(order)}
        limit 1`;

  return sql`${self} (client) as (
      (${first(sql`true`)})
      union all
      select n.client
      from ${self} w
      cross join lateral (
        select c.client
        from sync.clients c
        where c.client > w.client
        order by c.client
        limit 1
      ) k
      cross join lateral (${first(sql`o.client >= k.client`)}) n
    )`;
}

/**
 * Reads the due work of each client. Clients without rows and without trouble are left out, and so
 * are clients for which nothing may be pushed.
 */
export async function readDueWork(
  db: Kysely<DB>,
  clients: readonly ClientAccount[],
  { worker, ...kinds }: DueKinds,
): Promise<DueWork[]> {
  const { rows } = await sql<DueWork & { readonly identity: string }>`
    with recursive
    ${selectClientsWithRows('waiting', 'pending', 'o.client, o.kind, o.next_attempt_at, o.id')},
    ${selectClientsWithRows('unsettled', 'unknown', 'o.client, o.next_attempt_at, o.id')},
    concerned as (
      select client
      from waiting
      union
      select client
      from unsettled
      union
      select client
      from sync.service_health h
      where h.worker in (${everyWorker}, ${worker}) and ${isValid}
      union
      select client
      from sync.awake_clients a
      where a.awake_until > clock_timestamp() - make_interval(secs => ${lastLookMs / 1_000})
    )
    select c.client, c.identity, (
        select min(d.in_ms)
        from unnest(${kinds.names}::text[]) as k (kind)
        cross join lateral (
          select (extract(epoch from o.next_attempt_at - clock_timestamp()) * 1000)::float8 as in_ms
          from fulfilment.outbox o
          where o.client = c.client and o.kind = k.kind and o.status = 'pending'
          order by o.next_attempt_at
          limit 1
        ) d
        where c.client in (select client from waiting)
          and not exists (
            select from sync.service_health h where h.client = c.client and h.scope = k.kind
              and ${isValid} and ${holds})
      ) as "pendingInMs", (
        select (extract(epoch from min(o.next_attempt_at) - clock_timestamp()) * 1000)::float8
        from fulfilment.outbox o
        where o.client = c.client and o.status = 'unknown'
          and o.kind = any(${kinds.lookedUp}::text[])
      ) as "unknownInMs", (
        select (extract(epoch from a.awake_until - clock_timestamp()) * 1000)::float8
        from sync.awake_clients a
        where a.client = c.client
          and a.awake_until > clock_timestamp() - make_interval(secs => ${lastLookMs / 1_000})
      ) as "awakeInMs",
      coalesce((
        select json_agg(json_build_object('scope', h.scope, 'code', h.code, 'sendWindow',
          h.send_window,
          'untilInMs', extract(epoch from h.next_at - clock_timestamp())::float8 * 1000))
        from sync.service_health h
        where h.client = c.client and h.worker in (${everyWorker}, ${worker}) and ${isValid}
          and h.scope = any(array[${clientScope}] || ${kinds.names}::text[])
      ), '[]') as health
    from concerned
    join sync.clients c on c.client = concerned.client
    where ${mayPush(sql`c.client`, await readNewestMigration())}`.execute(db);
  const toNonNegative = (ms: number | null) => (ms === null ? null : Math.max(0, ms));

  // The list of all clients of a worker would cost more than the search itself.
  const own = new Map(clients.map(({ client, identity }) => [client, identity]));

  return rows
    .filter(({ client, identity }) => own.get(client) === identity)
    .filter(
      ({ pendingInMs, unknownInMs, awakeInMs, health }) =>
        pendingInMs !== null || unknownInMs !== null || awakeInMs !== null || health.length > 0,
    )
    .map(({ identity: _identity, ...row }) => ({
      ...row,
      pendingInMs: toNonNegative(row.pendingInMs),
      unknownInMs: toNonNegative(row.unknownInMs),
    }));
}
