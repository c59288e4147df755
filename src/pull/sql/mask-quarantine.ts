import { sql, type Transaction } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';
import { anyClient } from '../../db/values.ts';
import { isSentAgain } from './erasures.ts';

/**
 * The document of a quarantined resource whose personal data was erased. It has no id, so no replay
 * can decode it.
 */
const erasedDocument = '{"erased":true}';
const erasedReason = 'personal data was erased';

/**
 * SQL: the id of the shipment that a quarantined resource is, or links to; null if there is none.
 */
export const shipmentId = sql`coalesce(q.shipment_id, case
  when q.stream in ('shipments', 'pull-parcels', 'track-trace') then q.resource_id end)`;

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
        case when q.stream = 'orders' then q.resource_id else coalesce(
          q.order_id, (
          select s.order_id
          from fulfilment.shipments s
          where s.client = ${anyClient(client)} and s.id = ${shipmentId}), (
          select s.order_id
          from sync.quarantine s
          where s.client = ${anyClient(client)} and s.stream = 'shipments'
            and s.resource_key = (${shipmentId})::text)) end as order_id
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
