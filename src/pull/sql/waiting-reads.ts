/**
 * The list of everything that waits to be read again, whatever the reason. Rows are added and
 * removed in the transaction of the reading that they result from.
 */

import { type Kysely, type RawBuilder, sql, type Transaction } from 'kysely';
import { pauses } from '../../core/backoff.ts';
import type { DB } from '../../db/generated/tables.ts';
import { anyClient, anyId, toPauseSpan } from '../../db/values.ts';
import { makeParcelJobsDue } from '../../schedule/sql/due-jobs.ts';
import { type NumberedReading, readingSet, type StreamTransaction } from './stream-transaction.ts';

/** Why something asks for a read, at once. */
export type RequestReason =
  /** An older reading differed from the stored row. */
  | 'older_reading'
  /** Its lines came without a link to it. */
  | 'unlinked_lines'
  /** A shipment names the order, which is not stored. */
  | 'named_by_shipment'
  /** A return item of the announced return has arrived. */
  | 'returned'
  /** The track-trace list names it. */
  | 'tracked'
  /** A push changed it. */
  | 'pushed';

/** Why a read is made again later. */
export type PostponeReason =
  /** It is in quarantine: it may have been damaged on the way, or repaired since. */
  | 'quarantined'
  /** The read failed. */
  | 'read_failed'
  /** The service does not know it. */
  | 'not_found'
  /** The read found it still open, and the list of open rows does not show it. */
  | 'still_open'
  /** Another list shows it still open. */
  | 'listed_still_open';

/** Why the packages of a shipment are looked up (src/pull/parcels.ts). */
export type ParcelReadReason = 'shipped' | 'listed' | 'aging' | 'unanswered' | 'read_failed';

/** Any reason of a waiting read, as sync.waiting_reads stores it. */
type WaitingReason = RequestReason | PostponeReason | ParcelReadReason | 'not_listed';

/**
 * Reasons that only a good reading ends: after a read that did not help, they stay the reason, and
 * the read is repeated.
 */
const lastingReasons: readonly WaitingReason[] = ['quarantined', 'named_by_shipment'];
/** Reasons that tell of a change. A read that failed before is then made at once. */
const changeReasons: readonly WaitingReason[] = ['pushed', 'returned'];
/**
 * Reasons of reads that found nothing new. Nobody repeats them for their own sake. They are the
 * pause of `findUnlistedOpenRows` (unlisted.ts).
 */
const settledReasons: readonly WaitingReason[] = ['not_found', 'still_open', 'listed_still_open'];

/**
 * Finds the ids whose reads are due: each reason in turn, of each the longest waiting first.
 * @param limit maximum number of reads; null: all
 */
export async function findDueReads(
  db: Kysely<DB>,
  client: string,
  resource: string,
  limit: number | null,
): Promise<number[]> {
  const { rows } = await sql<{ id: number }>`
    select w.id
    from sync.waiting_reads w
    where w.client = ${anyClient(client)} and w.resource = ${resource}
      and w.next_at <= sync.clock()
      and (w.tries = 0 or not w.reason = any(${settledReasons}::text[]))
    order by row_number() over (partition by w.reason order by w.next_at, w.id), w.next_at
    limit ${limit}`.execute(db);

  return rows.map(({ id }) => id);
}

/** Finds the ids among these that wait for a read, due or not. */
export async function findWaiting(
  db: Kysely<DB>,
  client: string,
  resource: string,
  ids: readonly number[],
): Promise<number[]> {
  const rows = await db
    .selectFrom('sync.waiting_reads')
    .select('id')
    .where('client', '=', anyClient(client))
    .where('resource', '=', resource)
    .where('id', '=', anyId(ids))
    .execute();

  return rows.map(({ id }) => id);
}

/**
 * SQL: the number of a request. A reading with a smaller number was asked for before: it neither
 * removes nor postpones what is requested.
 */
const newRequestNo = sql`(select nextval('sync.read_no'))`;

/**
 * Requests reads of these ids. They are due at once, unless an earlier read is repeated later. What
 * the track-trace list names each hour is not asked for again if the service did not know it.
 */
export async function requestReads(
  scope: StreamTransaction,
  ids: readonly number[],
  reason: RequestReason,
): Promise<void> {
  const isOvertaken = sql`(w.reason = 'listed_still_open'
    or (w.reason = 'quarantined' and w.tries = 0)
    or (${reason !== 'tracked'} and w.tries > 0
      and (${changeReasons.includes(reason)} or w.reason in ('not_found', 'named_by_shipment'))))`;

  await addReads(scope, ids, reason, {
    tries: 0,
    isRequest: true,
    onConflict: sql`asked_no = excluded.asked_no,
      tries = case when ${isOvertaken} then 0 else w.tries end,
      next_at = case when ${isOvertaken} then excluded.next_at else w.next_at end,
      reason = case when ${isOvertaken} and not ${isLasting} then excluded.reason
        else w.reason end`,
  });
}

/**
 * Postpones reads that did not help, with growing pauses.
 * @param readNo number of the reading. What was requested after it keeps its time.
 */
export async function postponeReads(
  scope: StreamTransaction,
  ids: readonly number[],
  reason: PostponeReason,
  readNo: number,
): Promise<void> {
  await addReads(scope, ids, reason, {
    tries: 1,
    isRequest: false,
    onConflict: sql`tries = w.tries + 1,
      reason = case when ${isLasting} then w.reason else excluded.reason end,
      next_at = sync.clock() + ${toPauseSpan(pauses.reread, sql`w.tries + 1`)}
      where w.asked_no < ${readNo}`,
  });
}

/**
 * Adds resources that came into quarantine, to be read after the first pause. One that waits
 * already keeps its time.
 */
export async function addQuarantinedReads(
  scope: StreamTransaction,
  ids: readonly number[],
): Promise<void> {
  await addReads(scope, ids, 'quarantined', {
    tries: 0,
    isRequest: false,
    onConflict: sql`reason = excluded.reason where w.reason <> excluded.reason`,
  });
}

const isLasting = sql`w.reason = any(${lastingReasons}::text[])`;

/** How reads are added, and what happens to those that wait already. */
interface AddedReads {
  readonly tries: 0 | 1;
  /** True if they are due at once; else they are due after the first pause. */
  readonly isRequest: boolean;
  /** SQL: the SET of the row w that waits already. */
  readonly onConflict: RawBuilder<unknown>;
}

async function addReads(
  { trx, client, stream }: StreamTransaction,
  ids: readonly number[],
  reason: WaitingReason,
  { tries, isRequest, onConflict }: AddedReads,
): Promise<void> {
  if (ids.length === 0) return;
  const span = isRequest ? sql`interval '0'` : toPauseSpan(pauses.reread, sql`1`);
  const askedNo = isRequest ? newRequestNo : sql`0`;

  await sql`
    insert into sync.waiting_reads as w (client, resource, id, reason, tries, next_at, asked_no)
    select ${client}, ${stream}, i.id, ${reason}, ${tries}::integer, sync.clock() + ${span},
      ${askedNo}
    from (select distinct unnest(${ids}::bigint[]) as id) i
    order by i.id
    on conflict (client, resource, id) do update set ${onConflict}`.execute(trx);
}

/**
 * Removes what was read, or what a list showed. What was requested after the reading stays, and a
 * quarantined one while it is in quarantine.
 * @param changed the ids whose row has changed; null: all. A row that lists show still open stays
 *   until it changes.
 */
export async function removeReads(
  { trx, client, stream }: StreamTransaction,
  read: readonly NumberedReading[],
  changed: readonly number[] | null = null,
): Promise<void> {
  if (read.length === 0) return;
  const ids = read.map(({ id }) => id);

  await sql`
    delete from sync.waiting_reads w
    using ${readingSet(read)}
    where w.client = ${anyClient(client)} and w.resource = ${stream}
      and w.id = any(${ids}::bigint[]) and w.id = i.id and w.asked_no < i."readNo"
      and (w.reason <> 'listed_still_open' or w.id = any(${changed ?? ids}::bigint[]))
      and (w.reason <> 'quarantined' or not exists (
        select from sync.quarantine q
        where q.client = w.client and q.stream = w.resource
          and q.resource_key = w.id::text))`.execute(trx);
}

/**
 * Requests reads of the orders that shipments name and that are not stored.
 * @param ids the shipments; null: all. Without the first load of orders, nothing is requested for
 *   single shipments: its end requests reads for all of them.
 */
export async function requestMissingOrders(
  { trx, client }: Pick<StreamTransaction, 'trx' | 'client'>,
  ids: readonly number[] | null,
): Promise<void> {
  if (ids?.length === 0) return;
  const isLoaded = sql`exists (
        select from sync.cursors c
        where c.client = ${anyClient(client)} and c.stream = 'orders' and c.pass = 'placed'
          and c.completed_at is not null)`;

  await sql`
    insert into sync.waiting_reads as w (client, resource, id, reason, next_at, asked_no)
    select distinct s.client, 'orders', s.order_id, 'named_by_shipment', sync.clock(),
      ${newRequestNo}
    from fulfilment.shipments s
    where s.client = ${anyClient(client)} and s.order_id is not null
      and ${ids === null ? sql`true` : sql`s.id = any(${ids}::bigint[]) and ${isLoaded}`}
      -- Looks up one key at a time: a join could read the orders of all clients.
      and (select o.read_no from fulfilment.orders o where o.client = ${client}
        and o.id = s.order_id) is null
      -- Leaves out what is asked for until it is found: reads of orders would wait for its rows.
      and coalesce((select w.reason from sync.waiting_reads w where w.client = ${client}
        and w.resource = 'orders' and w.id = s.order_id), '') <> 'named_by_shipment'
    order by s.order_id
    -- One that was asked for otherwise is repeated from now on, until it is found.
    on conflict (client, resource, id) do update set reason = excluded.reason
      where w.reason not in ('quarantined', 'named_by_shipment')`.execute(trx);
}

/** Name under which the packages of shipments wait to be looked up. The id is the shipment's. */
export const parcels = 'parcels';

/**
 * Makes reads due that wait for longer than any pause lasts: the clock of the database was ahead
 * when they were postponed.
 */
export async function hastenReads(trx: Transaction<DB>, client: string): Promise<void> {
  await sql`
    update sync.waiting_reads
    set next_at = sync.clock()
    where client = ${anyClient(client)} and isfinite(next_at) and next_at > sync.clock()
      + case resource when ${parcels} then interval '31 days' else interval '1 day' end`.execute(
    trx,
  );
}

/**
 * Requests look-ups of those shipments that are SHIPPED. They are due at once, and so is the job
 * that makes them.
 */
export async function requestParcelReads(
  trx: Transaction<DB>,
  client: string,
  shipmentIds: readonly number[],
): Promise<void> {
  if (shipmentIds.length > 0) await addParcelReads(trx, client, sql`s.id = ${anyId(shipmentIds)}`);
}

/**
 * Number of days that a shipment is old at most when its first look-up is requested. The lists
 * reach back as far.
 */
const maxAgeDays = 90;

/**
 * Requests look-ups of the SHIPPED shipments that wait for none and had none, if they were shipped
 * in the last 90 days.
 * @param now the service's time
 * @returns the number of requested look-ups
 */
export function requestMissingParcelReads(
  trx: Transaction<DB>,
  client: string,
  now: Date,
): Promise<number> {
  // Looks up one key at a time: a join could read the rows of all clients.
  return addParcelReads(
    trx,
    client,
    sql`s.unlisted_since is null
      and sync.real_time(s.shipped_on)
        > ${now}::timestamptz - make_interval(days => ${maxAgeDays})
      and (select w.id from sync.waiting_reads w where w.client = ${client}
        and w.resource = ${parcels} and w.id = s.id) is null
      and (select max(p.read_at) from fulfilment.parcels p where p.client = ${client}
        and p.shipment_id = s.id) is null`,
  );
}

/**
 * Requests look-ups of the shipments whose packages are in quarantine.
 * @param stream name under which they are quarantined
 * @returns the number of requested look-ups
 */
export const requestQuarantinedParcelReads = (
  trx: Transaction<DB>,
  client: string,
  stream: string,
): Promise<number> =>
  addParcelReads(
    trx,
    client,
    sql`s.id in (select resource_id from sync.quarantine where client = ${anyClient(client)}
      and stream = ${stream})`,
  );

/** @param isWanted SQL: which of the SHIPPED shipments s */
async function addParcelReads(
  trx: Transaction<DB>,
  client: string,
  isWanted: RawBuilder<unknown>,
): Promise<number> {
  const { numAffectedRows } = await sql`
    insert into sync.waiting_reads as w (client, resource, id, reason, next_at, since, asked_no)
    select s.client, ${parcels}, s.id, 'shipped', sync.clock(), sync.clock(), ${newRequestNo}
    from fulfilment.shipments s
    where s.client = ${anyClient(client)} and s.status = 'SHIPPED' and ${isWanted}
    order by s.id
    on conflict (client, resource, id) do update
      set reason = excluded.reason, tries = 0, next_at = excluded.next_at,
        since = excluded.since, asked_no = excluded.asked_no`.execute(trx);
  await makeParcelJobsDue(trx, [client]);
  return Number(numAffectedRows);
}
