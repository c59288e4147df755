import { type Kysely, sql } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';
import { anyClient } from '../../db/values.ts';
import { type LookedUpRow, longestListLagMs } from '../judge-outcome.ts';

/**
 * A row with unknown outcome that is looked up now. Spans are measured by the clock of the
 * database.
 */
export interface UnknownRow extends Omit<LookedUpRow, 'retryAfterMs' | 'whenAbsent'> {
  readonly id: number;
  readonly client: string;
  readonly reference: string;
  /** JSON text. */
  readonly payload: string;
  readonly claimNo: number;
  /** Time since the first attempt that may have been carried out. */
  readonly sinceFirstSentMs: number;
  /** Time since this look-up was due. */
  readonly overdueMs: number;
  /** True if the payload was replaced after the attempt that may have been carried out. */
  readonly replaced: boolean;
}

/**
 * Maximum bytes of the payloads of one round of look-ups. A first row with more bytes is looked up
 * alone.
 */
const maxBytes = 8 * 1024 * 1024;
/** Time that a look-up has for itself, so that two workers do not ask the same question at once. */
const lookUpSpan = sql`interval '60 seconds'`;

/**
 * SQL: when outbox row `o` was first sent; never later, except after a worker was lost and the row
 * was retried.
 */
const firstSentAt = sql`least(o.written_at, o.limits_from, (
      select min(a.at - make_interval(secs => coalesce(a.duration_ms, 0) / 1000.0))
      from sync.outbox_attempts a
      where a.outbox_id = o.id and a.step = 'sent'))`;

/**
 * Takes rows of one client and kind whose look-up is due. The row that is due longest comes first.
 */
export async function takeUnknownRows(
  db: Kysely<DB>,
  client: string,
  kind: string,
  limit: number,
): Promise<UnknownRow[]> {
  const since = (column: string) =>
    sql`extract(epoch from statement_timestamp() - o.${sql.ref(column)})::float8 * 1000`;
  const { rows } = await sql<UnknownRow>`
    with due as materialized (
      select id, next_attempt_at, payload_bytes
      from fulfilment.outbox
      where client = ${anyClient(client)} and status = 'unknown' and kind = ${kind}
        and next_attempt_at <= statement_timestamp()
      order by next_attempt_at, id
      limit ${limit}
      for update skip locked
    ), fitting as (
      select id, next_attempt_at, sum(payload_bytes) over (order by next_attempt_at,
        id) - payload_bytes as bytes_before
      from due
    )
    update fulfilment.outbox o
    set next_attempt_at = statement_timestamp() + ${lookUpSpan}
    from fitting f
    where o.id = f.id and f.bytes_before < ${maxBytes}
    returning o.id, o.client, o.reference, o.payload::text as payload,
      o.claim_no as "claimNo",
      o.tries as attempts, ${since('limits_from')} as "ageMs",
      ${since('written_at')} as "sinceWrittenMs", o.absences,
        ${since('absent_at')} as "sinceAbsentMs", o.lookups,
        o.refusal, o.refused_as as "refusedAs",
      extract(epoch from statement_timestamp() - f.next_attempt_at)::float8 * 1000 as "overdueMs",
      extract(epoch from statement_timestamp() - ${firstSentAt})::float8 * 1000
        as "sinceFirstSentMs",
      coalesce(o.replaced_at > o.written_at, false) as replaced`.execute(db);
  return rows;
}

/**
 * Returns the ids of slips that no other row accounts for. A slip is excluded if it was stored here
 * before the row was inserted, or if it is the result of another row of this kind and reference.
 * @param ids ids of slips that fit a row that may have been carried out
 */
export async function findUnclaimedSlips(
  db: Kysely<DB>,
  { id: outboxId, client }: Pick<UnknownRow, 'id' | 'client'>,
  ids: readonly number[],
): Promise<number[]> {
  const { rows } = await sql<{ id: number }>`
    select i.id
    from unnest(${ids}::bigint[]) as i (id)
    join fulfilment.outbox r on r.id = ${outboxId}
    where not exists (
      select from fulfilment.inbound_packing_slips s
      where s.client = ${anyClient(client)} and s.id = i.id and s.first_seen_at < r.created_at)
    and not exists (
      select from fulfilment.outbox o
      where o.client = ${anyClient(client)} and o.reference = r.reference and o.kind = r.kind
        and o.status = 'done'
        and o.result ->> 'inboundPackingSlipId' = i.id::text)
    order by i.id`.execute(db);
  return rows.map(({ id }) => id);
}

/** An order of our tables that has the number of an outbox row. */
export interface StoredOrder {
  readonly rowId: number;
  readonly orderId: number;
  /** True if it was stored before the row was first sent, so that the row did not create it. */
  readonly isOlder: boolean;
  /** Another row of the outbox that created it, with another address; null: there is none. */
  readonly otherRow: number | null;
  /** Time since it was stored. */
  readonly storedAgoMs: number;
}

/** Finds the stored orders that have the numbers of these rows. */
export async function findStoredOrders(
  db: Kysely<DB>,
  rowIds: readonly number[],
): Promise<StoredOrder[]> {
  const { rows } = await sql<StoredOrder>`
    select o.id as "rowId", s.id as "orderId", s.first_seen_at < ${firstSentAt} as "isOlder", (
        select b.id
        from fulfilment.outbox b
        where b.client = o.client and b.family = o.family and b.reference = o.reference
          and b.id <> o.id and b.status = 'done' and b.erased_at is null
          and b.result ->> 'orderId' = s.id::text
          and b.payload -> 'deliveryAddress' <> o.payload -> 'deliveryAddress'
          and b.kind in ('order.create', 'order.replace')
        limit 1) as "otherRow",
      extract(epoch from statement_timestamp() - s.first_seen_at)::float8 * 1000 as "storedAgoMs"
    from fulfilment.outbox o
    join fulfilment.orders s
      on s.client = o.client and s.external_order_number = o.reference and s.unlisted_since is null
    where o.id = any(${rowIds}::bigint[])
    order by s.id`.execute(db);
  return rows;
}

/**
 * Returns the id of the last stored order that was placed on this day or later; null if there is
 * none. One that was stored more than a minute ago comes first: the lists of the service lag, and a
 * row is believed to be absent only a minute after it was sent.
 */
export async function findLastOrderSince(
  db: Kysely<DB>,
  client: string,
  day: string,
): Promise<number | null> {
  const orders = db
    .selectFrom('fulfilment.orders')
    .select('id')
    .where('client', '=', anyClient(client))
    .where('ordered_on', '>=', day)
    .where('unlisted_since', 'is', null)
    .orderBy('ordered_on', 'desc')
    .limit(1);
  const older = await orders
    .where('first_seen_at', '<', sql<Date>`clock_timestamp() - interval '1 minute'`)
    .executeTakeFirst();
  return (older ?? (await orders.executeTakeFirst()))?.id ?? null;
}

/** An order that the service accepted after the last attempt of a row. */
export interface LaterOrder {
  readonly rowId: number;
  readonly orderId: number;
  readonly number: string;
}

/**
 * Maximum number of orders that are searched for one row: more than workers send at the same time.
 */
const maxLaterOrders = 300;

/**
 * Finds, for each of these rows, the first order of its client that was sent after the row's last
 * attempt had ended, and that the service accepted at once. An order that a look-up found, or that
 * a person marked as done, may be older than its row.
 */
export async function findLaterOrders(
  db: Kysely<DB>,
  rowIds: readonly number[],
): Promise<LaterOrder[]> {
  const { rows } = await sql<LaterOrder>`
    select o.id as "rowId", later.order_id as "orderId", later.number
    from fulfilment.outbox o
    cross join lateral (
      select greatest(o.written_at, max(a.at)) as ended_at
      from sync.outbox_attempts a
      where a.outbox_id = o.id and a.step in ('sent', 'taken over')
    ) own
    cross join lateral (
      select s.id as order_id, s.external_order_number as number
      from (
        select d.id, d.reference, d.limits_from, d.finished_at,
          case when d.result ->> 'orderId' ~ '^[0-9]{1,18}$' then (d.result ->> 'orderId')::bigint
            end as order_id
        from fulfilment.outbox d
        where d.client = o.client and d.status = 'done' and d.kind = 'order.create'
          and d.finished_at > own.ended_at
        order by d.finished_at
        limit ${maxLaterOrders}
      ) d
      join fulfilment.orders s
        on s.client = o.client and s.id = d.order_id and s.external_order_number = d.reference
          and s.unlisted_since is null
      where d.limits_from > own.ended_at and d.reference ~ '^[A-Za-z0-9_.-]{1,50}$'
        and exists (
          select from sync.outbox_attempts a
          where a.outbox_id = d.id and a.step = 'sent' and a.became = 'done')
      order by d.finished_at
      limit 1
    ) later
    where o.id = any(${rowIds}::bigint[])`.execute(db);
  return rows;
}

/** Maximum number of unknown rows of a client that one call compares with the tables. */
const maxCompared = 10_000;
/** A resource may be committed this long after the look-up that missed it began. */
const lateCommitSpan = sql`interval '2 minutes'`;

/**
 * Makes due the look-ups of unknown rows whose order or slip has reached the tables since their
 * last look-up, also of rows that wait for a person.
 * @param kinds the kinds that are looked up
 * @returns true if a look-up is due now
 */
export async function bringLookUpsForward(
  db: Kysely<DB>,
  clients: readonly string[],
  kinds: readonly string[],
): Promise<boolean> {
  const { rows } = await sql`
    with arrived as materialized (
      select u.id
      from unnest(${clients}::text[]) as c (client)
      cross join lateral (
        select o.id, o.family, coalesce(o.absent_at, o.written_at, o.created_at) - ${lateCommitSpan}
          as looked_up_at,
          case when o.kind = 'order.rename' then o.payload ->> 'externalOrderNumber'
            else o.reference end as number
        from fulfilment.outbox o
        where o.client = c.client and o.status = 'unknown' and o.kind = any(${kinds}::text[])
          and (o.next_attempt_at is null
            or o.next_attempt_at > statement_timestamp() + interval '5 seconds')
        order by o.next_attempt_at desc
        limit ${maxCompared}
      ) u
      where case u.family
        when 'order' then exists (
          select from fulfilment.orders s
          where s.client = c.client and s.external_order_number = u.number
            and s.unlisted_since is null
            and s.changed_at > u.looked_up_at)
        when 'inbound_packing_slip' then exists (
          select from fulfilment.inbound_packing_slips s
          where s.client = c.client and s.reference = u.number and s.unlisted_since is null
            and s.first_seen_at > u.looked_up_at)
        else false end
    ), free as materialized (
      select l.id
      from arrived a
      cross join lateral (
        select o.id, o.status
        from fulfilment.outbox o
        where o.id = a.id
        limit 1
        for no key update of o skip locked
      ) l
      where l.status = 'unknown'
    )
    update fulfilment.outbox o
    set next_attempt_at = statement_timestamp()
    from free
    where o.id = free.id
    returning 1`.execute(db);
  return rows.length > 0;
}

/**
 * The longest time that passed until a list of a client's service showed an order that an earlier
 * look-up had missed.
 */
export interface ListLag {
  readonly client: string;
  readonly longestMs: number;
  readonly longestAt: Date;
  /** When a lag was last longer than lists are taken to lag; null: never. */
  readonly exceededAt: Date | null;
}

/** Records how long a list of a client lagged, if it is the longest time so far or too long. */
export async function recordListLag(db: Kysely<DB>, client: string, lagMs: number): Promise<void> {
  await sql`
    insert into sync.list_lags as l (client, longest_ms, longest_at, exceeded_at)
    values (${client}, ${Math.round(lagMs)}, clock_timestamp(),
      case when ${lagMs}::float8 > ${longestListLagMs}::float8 then clock_timestamp() end)
    on conflict (client) do update set
      longest_ms = greatest(l.longest_ms, excluded.longest_ms),
      longest_at = case when excluded.longest_ms > l.longest_ms then excluded.longest_at
        else l.longest_at end,
      exceeded_at = coalesce(excluded.exceeded_at, l.exceeded_at)
    where excluded.longest_ms > l.longest_ms or excluded.exceeded_at is not null`.execute(db);
}

/** Reads the longest lag of each client that has shown one. */
export async function readListLags(db: Kysely<DB>): Promise<ListLag[]> {
  return db
    .selectFrom('sync.list_lags')
    .select([
      'client',
      'longest_ms as longestMs',
      'longest_at as longestAt',
      'exceeded_at as exceededAt',
    ])
    .orderBy('client')
    .execute();
}
