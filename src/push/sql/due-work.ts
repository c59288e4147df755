import { type Kysely, type RawBuilder, sql } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';
import {
  type CurrentHealth,
  clientScope,
  everyWorker,
  holds,
  isValid,
} from '../../service/sql/service-health.ts';
import { mayPush, readNewestMigration } from './claim-rows.ts';

/**
 * All workers look once more this long after nobody is awake any more: an insert that was committed
 * until then may have been decided before, when somebody still was.
 */
export const lastLookMs = 1_000;
/** Milliseconds ahead that a look sees. A pusher looks at least that often. */
const aheadMs = 60_000;
/**
 * Maximum number of rows that a look reads in the order of their due times. If more are due soon,
 * it steps through the rows of each client: then a backlog of one client hides no other one.
 */
const maxSoon = 300;

/** Work of a client that is due now or soon. */
export interface DueWork {
  readonly client: string;
  /**
   * Milliseconds until the next row is due to be sent, without held kinds. Null: none is due within
   * a minute.
   */
  readonly pendingInMs: number | null;
  /** Milliseconds until the next look-up is due. Null: none is due within a minute. */
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

/** SQL: the end of what a look sees. */
const soon = sql`(select clock_timestamp() + make_interval(secs => ${aheadMs / 1_000}))`;

/** SQL: the rows that are due soon, at most `maxSoon`, by the index outbox_due. */
const selectSoon = sql`
      select o.client, o.kind, o.status, o.next_attempt_at as next_at
      from fulfilment.outbox o
      where o.status in ('pending', 'unknown')
        and o.next_attempt_at - timestamptz 'epoch' <= ${soon} - timestamptz 'epoch'
      order by o.next_attempt_at - timestamptz 'epoch'
      limit ${maxSoon}`;

/** SQL: true if more rows may be due soon. */
const isFull = sql`(select count(*) from soon) = ${maxSoon}`;

/** SQL: the first row of a status, in the order of the index of such rows. */
const selectFirst = (status: string, order: string, where: RawBuilder<unknown>) => sql`
      select o.id
      from fulfilment.outbox o
      where o.status = ${sql.lit(status)} and ${where}
      order by ${sql.raw(order)}
      limit 1`;

/** A walk through an index of rows of one status. The index begins with the client. */
interface OutboxWalk {
  readonly name: string;
  readonly status: string;
  readonly order: string;
  /** SQL: a step to another row of the same client, if there is one. */
  readonly within?: RawBuilder<unknown>;
}

/**
 * SQL of a recursive query: the first row of each step of a walk, if more rows may be due soon. A
 * step leads to the next known client, by two searches: neither clients without rows, nor those
 * that an ERP has invented, are read one by one.
 */
function walkOutbox({ name, status, order, within }: OutboxWalk) {
  const first = (where: RawBuilder<unknown>) => selectFirst(status, order, where);
  const nextClient = sql`(
        select n.id
        from (
          select c.client
          from sync.clients c
          where c.client > w.client
          order by c.client
          limit 1
        ) k
        cross join lateral (${first(sql`o.client >= k.client`)}) n)`;
  const next = within === undefined ? nextClient : sql`coalesce((${within}), ${nextClient})`;

  return sql`${sql.ref(name)} (client, kind, next_at) as (
      select r.client, r.kind, r.next_attempt_at
      from fulfilment.outbox r
      where r.id = (${first(sql`true`)}) and ${isFull}
      union all
      select r.client, r.kind, r.next_attempt_at
      from ${sql.ref(name)} w
      cross join lateral (select ${next} as id) n
      cross join lateral (select * from fulfilment.outbox r where r.id = n.id limit 1) r
    )`;
}

/**
 * SQL: the clients that have rows that are due soon, that somebody is awake for, or whose health
 * concerns this worker; several rows each.
 */
const selectFound = ({ names, lookedUp }: DueKinds, isOfWorker: RawBuilder<unknown>) => sql`
      select w.client, w.next_at, null::timestamptz, null::timestamptz
      from (
        select client, kind, next_at
        from soon
        where status = 'pending'
        union all
        select *
        from waiting
      ) w
      where w.next_at <= ${soon} and w.kind = any(${names}::text[]) and not exists (
        select from sync.service_health h
        where h.client = w.client and h.scope = w.kind and ${isValid} and ${holds})
      union all
      select s.client, null, s.next_at, null
      from soon s
      where s.status = 'unknown' and s.kind = any(${lookedUp}::text[])
      union all
      select u.client, null, l.next_attempt_at, null
      from unsettled u
      cross join lateral (
        select o.next_attempt_at
        from fulfilment.outbox o
        where o.client = u.client and o.status = 'unknown' and o.kind = any(${lookedUp}::text[])
          and o.next_attempt_at <= ${soon}
        order by o.next_attempt_at
        limit 1
      ) l
      where u.next_at <= ${soon}
      union all
      select a.client, null, null, a.awake_until
      from sync.awake_clients a
      where a.awake_until > clock_timestamp() - make_interval(secs => ${lastLookMs / 1_000})
      union all
      select h.client, null, null, null
      from sync.service_health h
      where ${isOfWorker}`;

/**
 * Reads the work of each client that is due now or soon. Clients without it and without trouble are
 * left out, and so are clients for which nothing may be pushed.
 * @param accounts the identities of the accounts of this worker, by client
 */
export async function readDueWork(
  db: Kysely<DB>,
  accounts: ReadonlyMap<string, string>,
  kinds: DueKinds,
): Promise<DueWork[]> {
  const { worker, names } = kinds;
  const order = 'o.client, o.kind, o.next_attempt_at, o.id';
  // The next kind that the worker knows: kinds that an ERP has invented are not read one by one.
  const nextKind = selectFirst(
    'pending',
    order,
    sql`o.client = w.client
      and o.kind >= (select min(k) from unnest(${names}::text[]) as k where k > w.kind)
      and exists (select from sync.clients c where c.client = w.client)`,
  );
  const pending = { name: 'waiting', status: 'pending', order, within: nextKind };
  const unknown = {
    name: 'unsettled',
    status: 'unknown',
    order: 'o.client, o.next_attempt_at, o.id',
  };
  const isOfWorker = sql`h.worker in (${everyWorker}, ${worker}) and ${isValid}`;
  const inMs = (time: RawBuilder<unknown>) =>
    sql`(extract(epoch from ${time} - clock_timestamp()) * 1000)::float8`;
  const dueInMs = (time: RawBuilder<unknown>) =>
    sql`case when ${time} is not null then greatest(0, ${inMs(time)}) end`;
  const { rows } = await sql<DueWork & { readonly identity: string }>`
    with recursive
    soon as materialized (${selectSoon}),
    ${walkOutbox(pending)},
    ${walkOutbox(unknown)},
    found (client, pending_at, unknown_at, awake_until) as (${selectFound(kinds, isOfWorker)})
    select c.client, c.identity, ${dueInMs(sql`f.pending_at`)} as "pendingInMs",
      ${dueInMs(sql`f.unknown_at`)} as "unknownInMs", ${inMs(sql`f.awake_until`)} as "awakeInMs",
      coalesce((
        select json_agg(json_build_object('scope', h.scope, 'code', h.code, 'sendWindow',
          h.send_window, 'untilInMs', ${inMs(sql`h.next_at`)}))
        from sync.service_health h
        where h.client = c.client and ${isOfWorker}
          and h.scope = any(array[${clientScope}] || ${names}::text[])
      ), '[]') as health
    from (
      select client, min(pending_at) as pending_at, min(unknown_at) as unknown_at,
        max(awake_until) as awake_until
      from found
      group by client
    ) f
    join sync.clients c on c.client = f.client
    where ${mayPush(sql`c.client`, await readNewestMigration())}`.execute(db);

  // The statement does not select them: a list of all clients would cost more than the rest of it.
  return rows.filter(({ client, identity }) => accounts.get(client) === identity);
}

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
