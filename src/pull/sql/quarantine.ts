import { createHash } from 'node:crypto';
import { type Kysely, sql, type Transaction } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';
import { anyClient } from '../../db/values.ts';
import { findLinkedOrder, isSentAgain, type linkColumns } from './erasures.ts';
import {
  type NumberedReading,
  type RunTransaction,
  readingSet,
  type StreamTransaction,
} from './stream-transaction.ts';

/**
 * The ids that a resource links to, and the order number in it; null if it has none that can be
 * read.
 */
export type OrderLinks = {
  readonly [Column in keyof typeof linkColumns]: Column extends 'external_order_number'
    ? string | null
    : number | null;
};

/** A resource that could not be decoded, with everything that was included for it. */
export interface QuarantineEntry {
  /** Null if not even the id can be read. */
  readonly resourceId: number | null;
  /** What leads to its order, so that an erasure finds it. */
  readonly links: OrderLinks;
  readonly memberPath: string;
  readonly reason: string;
  /** JSON text as received. */
  readonly document: string;
  /** Number of the reading of this entry, if entries of several readings are written at once. */
  readonly readNo?: number;
}

/**
 * Stores resources in quarantine as received, with the reason. Each resource has one row, which is
 * updated if the resource is met again.
 * @returns the number of resources that were not in quarantine before
 */
export async function quarantineResources(
  { trx, client, stream, run }: RunTransaction,
  readNo: number,
  entries: readonly QuarantineEntry[],
): Promise<number> {
  if (entries.length === 0) return 0;
  const byKey = new Map(entries.map((entry) => [toResourceKey(entry), entry]));
  const rows = [...byKey].map(([resourceKey, entry]) => ({
    ...{ client, stream, resource_key: resourceKey, resource_id: entry.resourceId },
    ...toOwnLinks(stream, entry),
    member_path: toStorableText(entry.memberPath),
    reason: toStorableText(entry.reason),
    document: entry.document,
    ...{ run_worker: run.worker, run_job: run.lease.name, run_lease_key: run.lease.key },
    read_no: entry.readNo ?? readNo,
  }));
  const replaced = Object.keys(rows[0] ?? {}).map(
    (column) => [column, sql.ref<never>(`excluded.${column}`)] as const,
  );

  const written = await trx
    .insertInto('sync.quarantine')
    .values(rows)
    .onConflict((conflict) =>
      conflict
        .columns(['client', 'stream', 'resource_key'])
        .doUpdateSet((eb) => ({
          ...Object.fromEntries(replaced),
          times: eb('sync.quarantine.times', '+', 1),
          last_seen_at: sql<Date>`now()`,
        }))
        .whereRef('sync.quarantine.read_no', '<=', 'excluded.read_no'),
    )
    .returning(['id', sql<boolean>`xmax = 0`.as('isNew')])
    .execute();
  const ids = written.map(({ id }) => id);
  await maskErasedQuarantine(trx, client, ids);

  return written.filter(({ isNew }) => isNew).length;
}

/** Releases resources that a later reading could decode. The mirror has that reading now. */
export async function releaseQuarantined(
  { trx, client, stream }: StreamTransaction,
  read: readonly NumberedReading[],
): Promise<void> {
  if (read.length === 0) return;
  const keys = read.map(({ id }) => String(id));

  await sql`
    delete from sync.quarantine q
    using ${readingSet(read)}
    where q.client = ${anyClient(client)} and q.stream = ${stream}
      and q.resource_key = any(${keys}::text[])
      and q.resource_key = i.id::text and q.read_no <= i."readNo"`.execute(trx);
}

/** Releases all resources of older readings. For a list that is read completely each time. */
export async function releaseOlderQuarantined(
  { trx, client, stream }: StreamTransaction,
  readNo: number,
): Promise<void> {
  await trx
    .deleteFrom('sync.quarantine')
    .where('client', '=', anyClient(client))
    .where('stream', '=', stream)
    .where('read_no', '<', readNo)
    .execute();
}

/** Releases one resource, by the id of its quarantine row. */
export async function releaseQuarantineRow(trx: Transaction<DB>, id: number): Promise<void> {
  await trx.deleteFrom('sync.quarantine').where('id', '=', id).execute();
}

/**
 * A row of the quarantine. `run` is the number of the run that last met it; null if it was pruned.
 */
export type QuarantineRow = Awaited<ReturnType<typeof listQuarantined>>[number];

/** A row of the quarantine with the resource itself, JSON text as received. */
export type QuarantinedDocument = NonNullable<Awaited<ReturnType<typeof readQuarantined>>>;

const selectQuarantined = (db: Kysely<DB>) =>
  db
    .selectFrom('sync.quarantine as q')
    .select((eb) => [
      'q.id',
      'q.client',
      'q.stream',
      'q.resource_id as resourceId',
      'q.member_path as memberPath',
      'q.reason',
      'q.times',
      'q.first_seen_at as firstSeenAt',
      'q.last_seen_at as lastSeenAt',
      'q.run_worker as worker',
      eb
        .selectFrom('sync.runs as r')
        .select('r.id')
        .whereRef('r.client', '=', 'q.client')
        .whereRef('r.job', '=', 'q.run_job')
        .whereRef('r.lease_key', '=', 'q.run_lease_key')
        .as('run'),
    ]);

/** Lists the rows of the quarantine, the oldest first. Returns all of them if no limit is given. */
export async function listQuarantined(
  db: Kysely<DB>,
  { client = null, stream = null }: { client?: string | null; stream?: string | null },
  limit: number | null = null,
) {
  return selectQuarantined(db)
    .$if(client !== null, (query) => query.where('q.client', '=', client))
    .$if(stream !== null, (query) => query.where('q.stream', '=', stream))
    .orderBy('q.id')
    .$if(limit !== null, (query) => query.limit(limit ?? 0))
    .execute();
}

/** Reads one row of the quarantine with its resource; null if there is none. */
export async function readQuarantined(db: Kysely<DB>, id: number) {
  const row = await selectQuarantined(db)
    .select(['q.document', 'q.read_no as readNo'])
    .where('q.id', '=', id)
    .executeTakeFirst();
  return row ?? null;
}

/** Returns what leads to the order of an entry. It may be an order or a shipment itself. */
function toOwnLinks(stream: string, { resourceId, links }: QuarantineEntry): OrderLinks {
  const { order_id: orderId, shipment_id: shipmentId, external_order_number: number } = links;
  const isOfShipment = stream === 'shipments' || stream === 'pull-parcels';

  return {
    ...links,
    order_id: stream === 'orders' ? resourceId : orderId,
    shipment_id: isOfShipment ? resourceId : shipmentId,
    external_order_number: number === null ? null : toStorableText(number),
  };
}

/**
 * Returns the key of a resource in quarantine: its id, or a hash of the document if the id cannot
 * be read.
 */
function toResourceKey({ resourceId, document }: QuarantineEntry): string {
  return resourceId === null
    ? `sha256:${createHash('sha256').update(document).digest('hex')}`
    : String(resourceId);
}

/** Makes a text storable. Member names come from the service, and Postgres refuses NUL in text. */
function toStorableText(text: string): string {
  return text.replaceAll('\0', '\u2400').toWellFormed().slice(0, 1_000);
}

/**
 * The document of a quarantined resource whose personal data was erased. It has no id, so no replay
 * can decode it.
 */
const erasedDocument = '{"erased":true}';
const erasedReason = 'personal data was erased';

/** SQL: the id of the order of a resource q in quarantine, by any of its links. */
export const findQuarantinedOrder = (client: string) => sql`coalesce(
    q.order_id, ${findLinkedOrder(client, 'q')}, (
    select s.order_id
    from sync.quarantine s
    where s.client = ${anyClient(client)} and s.stream = 'shipments'
      and s.resource_key = q.shipment_id::text))`;

/**
 * Masks resources in quarantine whose order was erased. The reading itself stays: the resource is
 * read again as before.
 * @param ids rows that were just written; null: all rows of the client
 */
export async function maskErasedQuarantine(
  trx: Transaction<DB>,
  client: string,
  ids: readonly number[] | null,
): Promise<number> {
  const { numAffectedRows } = await sql`
    with met as materialized (
      select q.id, q.stream, q.resource_id, q.external_order_number as number,
        ${findQuarantinedOrder(client)} as order_id
      from sync.quarantine q
      where q.client = ${anyClient(client)} and q.document <> ${erasedDocument}
        and (${ids === null} or q.id = any(${ids ?? []}::bigint[]))
        and exists (select from sync.erasures where client = ${anyClient(client)})
    )
    update sync.quarantine q
    set document = ${erasedDocument}, reason = ${erasedReason}
    from met m
    where q.id = m.id and (
      exists (
        select from sync.erasures e
        where e.client = ${anyClient(client)} and e.entity = 'orders' and e.id = m.order_id)
      or exists (
        select from sync.erasures e
        where e.client = ${anyClient(client)} and e.entity = replace(m.stream, '-', '_')
          and e.id = m.resource_id)
      or (m.order_id is null and exists (
        select from sync.erasures e
        where e.client = ${anyClient(client)} and e.entity = 'orders'
          and e.external_order_number = m.number))
      or exists (
        select from sync.erasures e
        where e.client = ${anyClient(client)} and e.entity = 'outbox'
          and e.external_order_number = m.number
          and not ${isSentAgain}))`.execute(trx);
  return Number(numAffectedRows ?? 0);
}

/** Masks resources in quarantine that were last received before a number of days. */
export async function maskAgedQuarantine(
  trx: Transaction<DB>,
  client: string,
  days: number,
): Promise<number> {
  const { numAffectedRows } = await sql`
    update sync.quarantine q
    set document = ${erasedDocument}, reason = ${erasedReason}
    where q.client = ${anyClient(client)} and q.document <> ${erasedDocument}
      and q.last_seen_at < now() - make_interval(days => ${days})`.execute(trx);
  return Number(numAffectedRows ?? 0);
}
