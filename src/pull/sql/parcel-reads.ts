import { type Kysely, sql, type Transaction } from 'kysely';
import { pauses } from '../../core/backoff.ts';
import type { DB } from '../../db/generated/tables.ts';
import { anyClient, anyId } from '../../db/values.ts';
import type { NumberedReading } from './stream-transaction.ts';
import {
  findDueReads,
  type ParcelReadReason,
  parcels,
  removeReads,
  requestParcelReads,
  type WaitingRead,
} from './waiting-reads.ts';

/**
 * Number of days that a shipment is old at most when its first look-up is requested. The lists
 * reach back as far.
 */
const maxAgeDays = 90;

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
 * Requests look-ups of the SHIPPED shipments that wait for none and had none, if they were shipped
 * in the last 90 days. Looks at the next 2,000 shipments of the client after `after`, in ascending
 * order of id.
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
      insert into sync.waiting_reads (client, resource, id, reason, next_at, since)
      select ${client}, ${parcels}, p.id, 'shipped', sync.clock(), sync.clock()
      from page p
      where p.status = 'SHIPPED' and p.unlisted_since is null
        and p.shipped_on > ${now}::timestamptz - make_interval(days => ${maxAgeDays})
        and (select max(k.read_at) from fulfilment.parcels k where k.client = ${client}
          and k.shipment_id = p.id) is null
      on conflict (client, resource, id) do nothing
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
    update sync.waiting_reads w
    set reason = 'listed', next_at = sync.clock() + make_interval(secs => ${listedSeconds})
    from (
      select id
      from sync.waiting_reads
      where client = ${anyClient(client)} and resource = ${parcels} and id = ${anyId(shipmentIds)}
        and next_at > sync.clock() and next_at < sync.clock() + interval '2 days'
      order by id
      for update
    ) l
    where w.client = ${anyClient(client)} and w.resource = ${parcels}
      and w.id = l.id`.execute(trx);
}

/** Seconds before packages are looked up that the track-trace list shows. */
const listedSeconds = pauses.listedParcelRead.firstMs / 1_000;

/** A shipment whose packages are due to be looked up. */
export interface DueParcelRead extends WaitingRead {
  /** When it was shipped; null if that is not known. */
  readonly shippedOn: Date | null;
}

/** Finds the look-ups that are due, the newest shipments first. */
export async function findDueParcelReads(
  db: Kysely<DB>,
  client: string,
  limit: number,
): Promise<DueParcelRead[]> {
  const due = await findDueReads(db, client, parcels, { limit, order: 'newest' });
  if (due.length === 0) return [];

  const { rows } = await sql<{ id: number; shippedOn: Date | null }>`
    select s.id, sync.real_time(s.shipped_on) as "shippedOn"
    from fulfilment.shipments s
    where s.client = ${anyClient(client)} and s.id = ${anyId(due.map(({ id }) => id))}`.execute(db);
  const shippedOn = new Map(rows.map((row) => [row.id, row.shippedOn]));

  return due.map((read) => ({ ...read, shippedOn: shippedOn.get(read.id) ?? null }));
}

/** What follows from the answer to a look-up. */
export interface ParcelReadPlan {
  readonly shipmentId: number;
  /** Number of the look-up. */
  readonly readNo: number;
  readonly reason: Exclude<ParcelReadReason, 'shipped' | 'listed'>;
  /** Why there is no package, or why some could not be decoded; null otherwise. */
  readonly problem: string | null;
  /**
   * Seconds to the next look-up if track-trace does not know the shipment, or if there is a
   * problem; null: none.
   */
  readonly nextInSeconds: number | null;
}

/**
 * Plans the next look-up of each shipment. A shipment that was asked for during the look-up is left
 * alone. One that was asked about in vain too often stays without a time.
 */
export async function planParcelReads(
  trx: Transaction<DB>,
  client: string,
  answered: readonly ParcelReadPlan[],
): Promise<void> {
  const ids = answered.map(({ shipmentId }) => shipmentId);
  const { rows: tracked } = await sql<{ id: number; isListed: boolean }>`
    select shipment_id as id, bool_or(unlisted_since is null) as "isListed"
    from fulfilment.track_traces
    where client = ${anyClient(client)} and shipment_id = ${anyId(ids)}
    group by shipment_id`.execute(trx);
  const isListed = new Map(tracked.map((row) => [row.id, row.isListed]));

  const done: NumberedReading[] = [];
  const next: object[] = [];
  for (const { shipmentId: id, readNo, problem, reason, nextInSeconds } of answered) {
    const listed = problem === null ? isListed.get(id) : undefined;
    const isLast = problem === null && (listed === false || nextInSeconds === null);

    // While the track-trace list shows one of its packages, its status comes from there. When all
    // have left the list, this look-up has read the last status.
    if (listed) next.push({ id, readNo, problem, reason: 'listed', seconds: listedSeconds });
    else if (isLast) done.push({ id, readNo });
    else next.push({ id, readNo, problem, reason, seconds: nextInSeconds });
  }

  await removeReads({ trx, client, stream: parcels }, done);
  await sql`
    update sync.waiting_reads w
    set words = p.problem, reason = p.reason,
      tries = case p.reason when 'unanswered' then w.tries + 1 when 'read_failed' then w.tries
        else 0 end,
      next_at = coalesce(sync.clock() + make_interval(secs => p.seconds), 'infinity')
    from json_to_recordset(${JSON.stringify(next)}::json) as p (
      id bigint, "readNo" bigint, problem text, reason text, seconds float8)
    where w.client = ${anyClient(client)} and w.resource = ${parcels} and w.id = ${anyId(ids)}
      and w.id = p.id and w.asked_no < p."readNo"`.execute(trx);
}

/**
 * The look-ups of one client that are due, and when the oldest of these shipments was shipped; null
 * if not known.
 */
export type ParcelBacklog = Awaited<ReturnType<typeof readParcelBacklog>>[number];

/** Counts the look-ups that are due, for each client that has any. */
export async function readParcelBacklog(db: Kysely<DB>) {
  return db
    .selectFrom('sync.waiting_reads as w')
    .select((eb) => [
      'w.client',
      eb.fn.countAll<number>().as('shipments'),
      sql<Date | null>`min((
        select sync.real_time(s.shipped_on)
        from fulfilment.shipments s
        where s.client = w.client and s.id = w.id))`.as('oldestShippedOn'),
    ])
    .where('w.resource', '=', parcels)
    .where('w.next_at', '<=', sql<Date>`sync.clock()`)
    .groupBy('w.client')
    .orderBy('w.client')
    .execute();
}
