/**
 * What polls read again: rereads and absences. They are written in the transaction of the page that
 * they result from.
 */

import { type Kysely, sql } from 'kysely';
import { pauses } from '../../core/backoff.ts';
import type { DB } from '../../db/generated/tables.ts';
import { anyClient, anyId, toPauseSpan } from '../../db/values.ts';
import { type AgeColumns, isYoungEnough } from './age.ts';
import type { RunTransaction, StreamTransaction } from './stream-transaction.ts';

/**
 * Maximum number of reads by id per run after the first load. It keeps a poll cheap, however many
 * rows are missing.
 */
export const rereadsPerRun = 50;

/** Reasons for a reread: the read failed, it found nothing, or the row it found is still open. */
export const couldNotBeRead = 'could not be read';
export const unknownToService = 'unknown to the service';
const foundStillOpen = 'found, and still open';

/** Postpones rereads that were without result. */
export async function postponeRereads(
  { trx, client, stream }: StreamTransaction,
  ids: readonly number[],
  reason: string,
): Promise<void> {
  if (ids.length === 0) return;
  await sql`
    insert into sync.rereads as r (client, stream, id, tries, next_try_at, last_reason)
    select ${client}, ${stream}, i.id, 1, now() + ${toPauseSpan(pauses.reread, sql`1`)}, ${reason}
    from unnest(${ids}::bigint[]) as i (id)
    order by i.id
    on conflict (client, stream, id) do update
      set tries = r.tries + 1, last_reason = excluded.last_reason,
          next_try_at = now() + ${toPauseSpan(pauses.reread, sql`r.tries + 1`)}`.execute(trx);
}

/**
 * Postpones rereads of rows that lists showed and that are still open. `tries` is the number of
 * earlier attempts.
 */
export async function postponeStillOpen(
  { trx, client, stream }: StreamTransaction,
  found: readonly { readonly id: number; readonly tries: number }[],
): Promise<void> {
  const [ids, tries] = [found.map(({ id }) => id), found.map((row) => row.tries)];
  await sql`
    insert into sync.rereads (client, stream, id, tries, next_try_at, last_reason)
    select ${client}, ${stream}, i.id, i.tries + 1,
      now() + ${toPauseSpan(pauses.reread, sql`i.tries + 1`)},
      ${foundStillOpen}
    from unnest(${ids}::bigint[], ${tries}::integer[]) as i (id, tries)
    order by i.id
    on conflict (client, stream, id) do update
      set tries = excluded.tries, next_try_at = excluded.next_try_at,
        last_reason = excluded.last_reason`.execute(trx);
}

/**
 * Requests rereads of these ids. They are due at once.
 * @param again true: also of ids that the service did not know at an earlier read
 */
export async function requestRereads(
  { trx, client, stream }: StreamTransaction,
  ids: readonly number[],
  reason: string,
  again = true,
): Promise<void> {
  if (ids.length === 0) return;
  await sql`
    insert into sync.rereads as r (client, stream, id, tries, next_try_at, last_reason)
    select distinct ${client}, ${stream}, i.id, 0, now(), ${reason}
    from unnest(${ids}::bigint[]) as i (id)
    on conflict (client, stream, id) do update
      set tries = 0, next_try_at = excluded.next_try_at, last_reason = excluded.last_reason
      where (${again} and r.last_reason = ${unknownToService})
        or r.last_reason = ${foundStillOpen}`.execute(trx);
}

/** Finds the ids whose reread is due, the longest waiting first. Leaves out unlisted rows. */
export async function findRereadsDue(
  db: Kysely<DB>,
  client: string,
  kind: OpenKind,
): Promise<number[]> {
  const { rows } = await sql<{ id: number }>`
    select r.id
    from sync.rereads r
    where r.client = ${anyClient(client)} and r.stream = ${kind.stream} and r.next_try_at <= now()
      and not exists (
        select from ${sql.table(`fulfilment.${kind.table}`)} s
        where s.client = r.client and s.id = r.id and s.unlisted_since is not null)
    order by r.next_try_at, r.id`.execute(db);
  return rows.map(({ id }) => id);
}

/**
 * Finds the ids whose requested reread was not tried yet, or failed and is due again; the longest
 * waiting first.
 */
export async function findRequestedRereads(
  db: Kysely<DB>,
  client: string,
  stream: string,
): Promise<number[]> {
  const rows = await db
    .selectFrom('sync.rereads')
    .select('id')
    .where('client', '=', anyClient(client))
    .where('stream', '=', stream)
    .where((eb) =>
      eb.or([
        eb('tries', '=', 0),
        eb.and([eb('last_reason', '=', couldNotBeRead), eb('next_try_at', '<=', sql<Date>`now()`)]),
      ]),
    )
    .orderBy('next_try_at')
    .orderBy('id')
    .execute();
  return rows.map(({ id }) => id);
}

/** Finds the ids among these that wait for a reread, due or not. */
export async function findRereads(
  db: Kysely<DB>,
  client: string,
  stream: string,
  ids: readonly number[],
): Promise<number[]> {
  const rows = await db
    .selectFrom('sync.rereads')
    .select('id')
    .where('client', '=', anyClient(client))
    .where('stream', '=', stream)
    .where('id', '=', anyId(ids))
    .execute();
  return rows.map(({ id }) => id);
}

/**
 * Removes the rereads of ids that were read.
 * @param changed the ids whose row has changed; null: all. The reread of a row that was found still
 *   open is removed only if the row changed.
 */
export async function removeRereads(
  { trx, client, stream }: StreamTransaction,
  ids: readonly number[],
  changed: readonly number[] | null = null,
): Promise<void> {
  if (ids.length === 0) return;
  await trx
    .deleteFrom('sync.rereads')
    .where('client', '=', anyClient(client))
    .where('stream', '=', stream)
    .where('id', '=', anyId(ids))
    .$if(changed !== null, (query) =>
      query.where((eb) =>
        eb.or([eb('last_reason', '<>', foundStillOpen), eb('id', '=', anyId(changed ?? []))]),
      ),
    )
    .execute();
}

/**
 * Finds the shipments among these ids that have an order. The service returns only these by id
 * (docs/interface.md, 10.4 Operations).
 */
export async function findShipmentsWithOrder(
  { trx, client }: Pick<RunTransaction, 'trx' | 'client'>,
  ids: readonly number[],
): Promise<number[]> {
  const rows = await trx
    .selectFrom('fulfilment.shipments')
    .select('id')
    .where('client', '=', anyClient(client))
    .where('id', '=', anyId(ids))
    .where('order_id', 'is not', null)
    .execute();
  return rows.map(({ id }) => id);
}

/**
 * Requests reads of the orders that shipments name and that are not stored.
 * @param ids the shipments; null: all. Without the first load of orders, nothing is requested for
 *   single shipments: its end requests reads for all of them.
 */
export async function requestMissingOrders(
  { trx, client }: Pick<RunTransaction, 'trx' | 'client'>,
  ids: readonly number[] | null,
): Promise<void> {
  if (ids?.length === 0) return;
  const isLoaded = sql`exists (
        select from sync.cursors c
        where c.client = ${anyClient(client)} and c.stream = 'orders' and c.pass = 'placed'
          and c.completed_at is not null)`;
  await sql`
    insert into sync.rereads (client, stream, id, next_try_at, last_reason)
    select distinct s.client, 'orders', s.order_id, now(), 'a shipment names it'
    from fulfilment.shipments s
    where s.client = ${anyClient(client)} and s.order_id is not null
      and ${ids === null ? sql`true` : sql`s.id = any(${ids}::bigint[]) and ${isLoaded}`}
      -- Looks up one key at a time: a join could read the orders of all clients.
      and (select o.read_no from fulfilment.orders o where o.client = ${client}
        and o.id = s.order_id) is null
    on conflict do nothing`.execute(trx);
}

/**
 * Finds the orders that shipments name and that are not stored, if their next read is due, the
 * longest waiting first.
 */
export async function findMissingOrders(db: Kysely<DB>, client: string): Promise<number[]> {
  const { rows } = await sql<{ id: number }>`
    select r.id
    from sync.rereads r
    where r.client = ${anyClient(client)} and r.stream = 'orders' and r.next_try_at <= now()
      and exists (select from fulfilment.shipments s where s.client = r.client
        and s.order_id = r.id)
      and not exists (select from fulfilment.orders o where o.client = r.client and o.id = r.id)
    order by r.next_try_at, r.id`.execute(db);
  return rows.map(({ id }) => id);
}

/**
 * A kind of rows that change until they reach one status. A row with an unknown status, or none, is
 * still open.
 */
export interface OpenKind {
  readonly table: string;
  /** Name of their stream. Their rereads are stored under it. */
  readonly stream: string;
  /** The documented statuses of rows that still change. */
  readonly open: readonly string[];
  readonly closed: string;
}

/** A row that is open here, with the state of its rereads. */
export interface OpenRow {
  readonly id: number;
  /** Order of a shipment; null for other kinds. */
  readonly orderId: number | null;
  /** Number of consecutive reads after which the row was still open. */
  readonly tries: number;
  /** True if the row is unlisted. Lists are then not asked for it. */
  readonly gone: boolean;
}

/**
 * Number of days after which polls rarely ask for a row that is unlisted, or whose undocumented
 * status does not change: that status may be a final one. The lists show rows of the last 90 days
 * (docs/interface.md, 5.1 Values).
 */
const rarelyAfterDays = 90;
/**
 * Number of days that such a row waits in addition to its pause of one day: it is asked for once a
 * week.
 */
const extraPauseDays = 6;

const toTableRef = ({ table }: OpenKind) => sql.table(`fulfilment.${table}`);

/**
 * Finds rows that are open here but missing from `listed`, a complete list of the open rows. Either
 * their status has changed, or the lists do not show them. Returns only the rows that are due for a
 * question, the longest waiting first.
 */
export async function findUnlistedOpenRows(
  db: Kysely<DB>,
  client: string,
  kind: OpenKind,
  listed: readonly number[],
): Promise<OpenRow[]> {
  const orderId = kind.table === 'shipments' ? sql.ref('s.order_id') : sql`null::bigint`;
  const { rows } = await sql<OpenRow>`
    select s.id, ${orderId} as "orderId", coalesce(r.tries, 0) as tries,
      s.unlisted_since is not null as gone
    from ${toTableRef(kind)} s
    left join sync.rereads r on r.client = s.client and r.stream = ${kind.stream} and r.id = s.id
    where s.client = ${anyClient(client)} and s.status is distinct from ${sql.lit(kind.closed)}
      and coalesce(r.next_try_at <= now(), true)
      and (coalesce(s.unlisted_since,
        case when not coalesce(s.status = any(${kind.open}::text[]), false)
        then s.changed_at end,
          'infinity') > now() - make_interval(days => ${rarelyAfterDays})
        -- A row that was never asked for is asked for once.
        or coalesce(r.next_try_at, '-infinity') <= now() - make_interval(days => ${extraPauseDays}))
      and not exists (select from unnest(${listed}::bigint[]) as l (id) where l.id = s.id)
    order by r.next_try_at nulls first, s.id`.execute(db);
  return rows;
}

/** Finds the rows among these ids that are still open here. */
export async function findStillOpen(
  db: Kysely<DB>,
  client: string,
  kind: OpenKind,
  ids: readonly number[],
): Promise<number[]> {
  const { rows } = await sql<{ id: number }>`
    select id
    from ${toTableRef(kind)}
    where client = ${anyClient(client)} and id = any(${ids}::bigint[])
      and status is distinct from ${sql.lit(kind.closed)}`.execute(db);
  return rows.map(({ id }) => id);
}

/**
 * Ids of open rows that a list did not show. `unseen`: the list must have shown them. `gone`: they
 * are unlisted already. `tooOld`: they are too old for the list.
 */
export interface UnlistedOpenRows {
  readonly unseen: readonly number[];
  readonly gone: readonly number[];
  readonly tooOld: readonly number[];
}

/** Sorts the rows that are open here but missing from `listed`, for a kind without a read by id. */
export async function sortUnlistedOpenRows(
  db: Kysely<DB>,
  client: string,
  kind: OpenKind,
  age: AgeColumns,
  { listed, serviceNow }: { readonly listed: readonly number[]; readonly serviceNow: Date },
): Promise<UnlistedOpenRows> {
  const { rows } = await sql<{ id: number; gone: boolean; young: boolean }>`
    select t.id, t.unlisted_since is not null as gone, ${isYoungEnough(age, serviceNow)} as young
    from ${toTableRef(kind)} t
    where t.client = ${anyClient(client)} and t.status is distinct from ${sql.lit(kind.closed)}
      and not exists (select from unnest(${listed}::bigint[]) as l (id) where l.id = t.id)
      -- Leaves out resources in quarantine: the list shows them, but they could not be decoded.
      and not exists (
        select from sync.quarantine q
        where q.client = t.client and q.stream = ${kind.stream} and q.resource_key = t.id::text)
    order by t.id`.execute(db);
  const ids = (wanted: (row: (typeof rows)[number]) => boolean) =>
    rows.filter(wanted).map(({ id }) => id);
  return {
    gone: ids(({ gone }) => gone),
    unseen: ids(({ gone, young }) => !gone && young),
    tooOld: ids(({ gone, young }) => !gone && !young),
  };
}
