import { sql, type Transaction } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';
import { anyClient } from '../../db/values.ts';
import { recordErasures } from '../../pull/sql/erasures.ts';
import { appendChanges } from '../../pull/sql/feed.ts';
import type { AgedStep, MaskedPart } from './aged-data.ts';
import { isAnnounced } from './aged-orders.ts';
import { lockOrderStreams, lockParcelWriters } from './erase-locks.ts';
import { maskOrderRows } from './mask-rows.ts';

/** The tables of returns. */
export const returnTables = ['return_items', 'return_merchandise_authorizations'] as const;
export type ReturnTable = (typeof returnTables)[number];

/** Number of returns that one step looks at. */
const searchSize = 2_000;

/**
 * SQL: the day of a return, whether its order is stored, and whether something of it is to come.
 */
const conditions = (client: string) =>
  ({
    return_items: {
      day: sql`coalesce(sync.real_day(r.processed_on), r.changed_at::date)`,
      hasOrder: sql`exists (
        select from fulfilment.orders o
        where o.client = ${anyClient(client)} and o.id = r.order_id)`,
      isOpen: sql`false`,
    },
    return_merchandise_authorizations: {
      day: sql`coalesce(
        sync.real_day(r.modified_on), sync.real_day(r.created_on), r.changed_at::date)`,
      hasOrder: sql`exists (
        select from fulfilment.shipments s
        join fulfilment.orders o on o.client = s.client and o.id = s.order_id
        where s.client = ${anyClient(client)} and s.id = r.shipment_id)`,
      isOpen: isAnnounced(client, 'r'),
    },
  }) as const;

/**
 * Masks returns older than a number of days whose order is not stored, among the next returns after
 * `afterId`. They are recorded, so that they stay masked.
 */
export async function maskAgedReturns(
  table: ReturnTable,
  trx: Transaction<DB>,
  step: AgedStep,
  afterId: number,
): Promise<MaskedPart> {
  const first = await findAgedReturns(table, trx, step, afterId);
  if (first.ids.length === 0) return { rows: 0, next: first.next };
  const { client, by } = step;
  await lockParcelWriters(trx, client);
  await lockOrderStreams(trx, client);
  // A reading may have changed them until now.
  const { ids, next } = await findAgedReturns(table, trx, step, afterId);
  await recordErasures(
    trx,
    client,
    by,
    ids.map((id) => ({ entity: table, id, number: null })),
  );
  const none = { orderIds: [], shipmentIds: [], returnItemIds: [], authorizationIds: [] };
  const found = table === 'return_items' ? { returnItemIds: ids } : { authorizationIds: ids };
  const masked = await maskOrderRows(trx, { client, ...none, ...found });
  await appendChanges(trx, client, masked.changes);
  return { rows: ids.length, next };
}

async function findAgedReturns(
  table: ReturnTable,
  trx: Transaction<DB>,
  { client, days, limit }: AgedStep,
  afterId: number,
): Promise<{ readonly ids: readonly number[]; readonly next: number | null }> {
  const { day, hasOrder, isOpen } = conditions(client)[table];
  const { rows } = await sql<{ id: number; isAged: boolean }>`
    with r as materialized (
      select *
      from ${sql.table(`fulfilment.${table}`)} r
      where r.client = ${anyClient(client)} and r.id > ${afterId}
      order by r.id
      limit ${searchSize}
    )
    select r.id, ${day} < now() - make_interval(days => ${days}) and not ${hasOrder}
      and not ${isOpen} and not exists (
      select from sync.erasures e
      where e.client = ${anyClient(client)} and e.entity = ${table} and e.id = r.id) as "isAged"
    from r
    order by r.id`.execute(trx);
  const ids = rows.flatMap(({ id, isAged }) => (isAged ? [id] : [])).slice(0, limit);
  const last = rows.length < searchSize ? null : (rows.at(-1)?.id ?? null);
  return { ids, next: ids.length < limit ? last : (ids.at(-1) ?? null) };
}
