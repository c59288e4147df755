import { type Kysely, sql } from 'kysely';
import { anyClient } from '../connection/values.ts';
import type { DB } from '../generated/tables.ts';

/** A row with unknown outcome that is looked up now. Spans are measured by the clock of the database. */
export interface UnknownRow {
  readonly id: number;
  readonly client: string;
  readonly kind: string;
  readonly reference: string;
  /** JSON text. */
  readonly payload: string;
  readonly claimNo: number;
  readonly countedAttempts: number;
  readonly ageMs: number;
  readonly sinceWrittenMs: number | null;
  /** Time since the first attempt that may have been carried out. */
  readonly sinceFirstSentMs: number;
  readonly absences: number;
  readonly sinceAbsentMs: number | null;
  readonly lookups: number;
  readonly refusal: string | null;
  /** True if the payload was replaced after the attempt that may have been carried out. */
  readonly replaced: boolean;
}

/** Maximum bytes of the payloads of one round of look-ups. A first row with more bytes is looked up alone. */
const maxBytes = 8 * 1024 * 1024;
/** Time that a look-up has for itself, so that two workers do not ask the same question at once. */
const lookUpSpan = sql`interval '60 seconds'`;

/** SQL: when outbox row `o` was first sent; never later, except after a worker was lost and the row was retried. */
const firstSentAt = sql`least(o.written_at, o.limits_from, (
      select min(a.at - make_interval(secs => coalesce(a.duration_ms, 0) / 1000.0))
      from sync.outbox_attempts a
      where a.outbox_id = o.id and a.step = 'sent'))`;

/** Takes rows of one client and kind whose look-up is due. The row that is due longest comes first. */
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
      select id, sum(payload_bytes) over (order by next_attempt_at, id) - payload_bytes as bytes_before
      from due
    )
    update fulfilment.outbox o
    set next_attempt_at = statement_timestamp() + ${lookUpSpan}
    from fitting f
    where o.id = f.id and f.bytes_before < ${maxBytes}
    returning o.id, o.client, o.kind, o.reference, o.payload::text as payload, o.claim_no as "claimNo",
      o.attempts - o.uncounted_attempts as "countedAttempts", ${since('limits_from')} as "ageMs",
      ${since('written_at')} as "sinceWrittenMs", o.absences, ${since('absent_at')} as "sinceAbsentMs", o.lookups,
        o.refusal, extract(epoch from statement_timestamp() - ${firstSentAt})::float8 * 1000 as "sinceFirstSentMs",
      coalesce(o.replaced_at > o.written_at, false) as replaced`.execute(db);
  return rows;
}

/**
 * Returns the ids among `ids` that no other row accounts for. A resource is excluded if it was stored here before the
 * row was inserted, or if it is the result of another row of this kind and reference.
 * @param ids ids of resources that fit a row that may have been carried out
 * @param mirror the table of the resources, and the member of a row's result that holds such an id
 */
export async function findUnclaimedIds(
  db: Kysely<DB>,
  { id: outboxId, client }: Pick<UnknownRow, 'id' | 'client'>,
  ids: readonly number[],
  mirror: { readonly table: string; readonly resultMember: string },
): Promise<number[]> {
  const { rows } = await sql<{ id: number }>`
    select i.id
    from unnest(${ids}::bigint[]) as i (id)
    join fulfilment.outbox r on r.id = ${outboxId}
    where not exists (
      select from ${sql.table(`fulfilment.${mirror.table}`)} s
      where s.client = ${anyClient(client)} and s.id = i.id and s.first_seen_at < r.created_at)
    and not exists (
      select from fulfilment.outbox o
      where o.client = ${anyClient(client)} and o.reference = r.reference and o.kind = r.kind and o.status = 'done'
        and o.result ->> ${mirror.resultMember} = i.id::text)
    order by i.id`.execute(db);
  return rows.map(({ id }) => id);
}

/** An order of our tables that has the number of an outbox row. */
export interface StoredOrder {
  readonly rowId: number;
  readonly orderId: number;
  /** True if it was stored before the row was first sent, so that the row did not create it. */
  readonly isOlder: boolean;
}

/** Finds the stored orders that have the numbers of these rows. */
export async function findStoredOrders(db: Kysely<DB>, rowIds: readonly number[]): Promise<StoredOrder[]> {
  const { rows } = await sql<StoredOrder>`
    select o.id as "rowId", s.id as "orderId", s.first_seen_at < ${firstSentAt} as "isOlder"
    from fulfilment.outbox o
    join fulfilment.orders s
      on s.client = o.client and s.external_order_number = o.reference and s.unlisted_since is null
    where o.id = any(${rowIds}::bigint[])
    order by s.id`.execute(db);
  return rows;
}

/**
 * Returns the id of the last stored order that was placed on this day or later; null if there is none. One that was
 * stored more than a minute ago comes first: the lists of the service lag, and a row is believed to be absent only a
 * minute after it was sent.
 */
export async function findLastOrderSince(db: Kysely<DB>, client: string, day: string): Promise<number | null> {
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
