import { type Kysely, sql, type Transaction } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';
import { anyClient, anyId } from '../../db/values.ts';
import { makeParcelJobsDue } from '../../schedule/sql/due-jobs.ts';

/**
 * Number of days that a shipment is old at most when its first look-up is requested. The lists
 * reach back as far.
 */
const maxAgeDays = 90;
/**
 * Pause before packages are looked up that the track-trace list shows. Each reading of the list
 * prolongs it, so it only ends if the list is no longer read. When a package leaves the list, it is
 * due at once.
 */
export const listedPauseDays = 3;

/**
 * Requests look-ups of those shipments that are SHIPPED. They are due at once, and so is the job
 * that makes them.
 */
export async function requestParcelReads(
  trx: Transaction<DB>,
  client: string,
  shipmentIds: readonly number[],
): Promise<void> {
  if (shipmentIds.length === 0) return;
  await sql`
    insert into sync.parcel_reads as r (client, shipment_id, shipped_on, due_at)
    select s.client, s.id, sync.real_time(s.shipped_on), sync.clock()
    from fulfilment.shipments s
    where s.client = ${anyClient(client)} and s.id = ${anyId(shipmentIds)} and s.status = 'SHIPPED'
    order by s.id
    on conflict (client, shipment_id) do update set
      shipped_on = excluded.shipped_on, due_at = excluded.due_at, requested_at = now(),
        requests = r.requests + 1,
      unanswered = 0
    `.execute(trx);
  await makeParcelJobsDue(trx, [client]);
}

/**
 * Requests look-ups of the shipments whose packages are in quarantine.
 * @param stream name under which they are quarantined
 * @returns the number of shipments
 */
export async function requestQuarantinedParcelReads(
  trx: Transaction<DB>,
  client: string,
  stream: string,
): Promise<number> {
  const rows = await trx
    .selectFrom('sync.quarantine')
    .select('resource_id as id')
    .distinct()
    .where('client', '=', anyClient(client))
    .where('stream', '=', stream)
    .where('resource_id', 'is not', null)
    .execute();
  const ids = rows.map(({ id }) => id).filter((id) => id !== null);
  await requestParcelReads(trx, client, ids);
  return ids.length;
}

/**
 * Requests look-ups of the SHIPPED shipments that have none, if they were shipped in the last 90
 * days. Looks at the next 2,000 shipments of the client after `after`, in ascending order of id.
 * @param now the service's time
 * @returns the number of requested look-ups, and the last id that it looked at; null at the end
 */
export async function requestMissingParcelReads(
  trx: Transaction<DB>,
  client: string,
  after: number,
  now: Date,
): Promise<{ readonly requested: number; readonly last: number | null }> {
  // The limit makes Postgres read the key in order. The subquery looks up one key at a time; a join
  // could read the rows of all clients.
  const { rows } = await sql<{ requested: number; last: number | null }>`
    with page as materialized (
      select s.id, s.status, sync.real_time(s.shipped_on) as shipped_on, s.unlisted_since
      from fulfilment.shipments s
      where s.client = ${anyClient(client)} and s.id > ${after}
      order by s.id
      limit 2000
    ), added as (
      insert into sync.parcel_reads (client, shipment_id, shipped_on, due_at)
      select ${client}, p.id, p.shipped_on, sync.clock()
      from page p
      where p.status = 'SHIPPED' and p.unlisted_since is null
        and p.shipped_on > ${now}::timestamptz - make_interval(days => ${maxAgeDays})
        and (select r.reads from sync.parcel_reads r where r.client = ${client}
          and r.shipment_id = p.id) is null
      on conflict (client, shipment_id) do nothing
      returning 1
    )
    select (select count(*)::int from added) as requested,
      (select max(id) from page) as last`.execute(trx);
  return rows[0] ?? { requested: 0, last: null };
}

/** Postpones the planned look-ups of shipments whose packages the track-trace list shows. */
export async function postponeListedParcelReads(
  trx: Transaction<DB>,
  client: string,
  shipmentIds: readonly number[],
): Promise<void> {
  if (shipmentIds.length === 0) return;
  await sql`
    update sync.parcel_reads r
    set due_at = sync.clock() + make_interval(days => ${listedPauseDays})
    from (
      select shipment_id
      from sync.parcel_reads
      where client = ${anyClient(client)} and shipment_id = ${anyId(shipmentIds)} and reads > 0
        and due_at > sync.clock() and due_at < sync.clock() + interval '2 days'
      order by shipment_id
      for update
    ) l
    where r.client = ${anyClient(client)} and r.shipment_id = l.shipment_id`.execute(trx);
}

/** A shipment whose packages are due to be looked up. */
export interface DueParcelRead {
  readonly shipmentId: number;
  readonly shippedOn: Date | null;
  /** Number of requests so far, to notice one that comes during the look-up. */
  readonly requests: number;
  /** Number of look-ups so far. */
  readonly reads: number;
  /** Number of look-ups without an answer since the last one that had one. */
  readonly unanswered: number;
}

/** Finds the look-ups that are due, the newest shipments first. */
export async function findDueParcelReads(
  db: Kysely<DB>,
  client: string,
  limit: number,
): Promise<DueParcelRead[]> {
  return db
    .selectFrom('sync.parcel_reads')
    .select([
      'shipment_id as shipmentId',
      'shipped_on as shippedOn',
      'requests',
      'reads',
      'unanswered',
    ])
    .where('client', '=', anyClient(client))
    .where('due_at', '<=', sql<Date>`sync.clock()`)
    .orderBy('shipment_id', 'desc')
    .limit(limit)
    .execute();
}

/**
 * Returns true if a look-up has ever returned a package of the client. Then the path of the look-up
 * is right.
 */
export async function hasReadParcels(db: Kysely<DB>, client: string): Promise<boolean> {
  const found = await db
    .selectFrom('fulfilment.parcels')
    .select('client')
    .where('client', '=', anyClient(client))
    .where('read_at', 'is not', null)
    .limit(1)
    .executeTakeFirst();
  return found !== undefined;
}

/**
 * The look-ups of one client that are due, and when the oldest of these shipments was shipped; null
 * if not known.
 */
export type ParcelBacklog = Awaited<ReturnType<typeof readParcelBacklog>>[number];

/** Counts the look-ups that are due, for each client that has any. */
export async function readParcelBacklog(db: Kysely<DB>) {
  return db
    .selectFrom('sync.parcel_reads')
    .select((eb) => [
      'client',
      eb.fn.countAll<number>().as('shipments'),
      eb.fn.min('shipped_on').as('oldestShippedOn'),
    ])
    .where('due_at', '<=', sql<Date>`sync.clock()`)
    .groupBy('client')
    .orderBy('client')
    .execute();
}
