import { type RawBuilder, sql } from 'kysely';
import type { Database } from '../../db/pool.ts';
import { findPersonalColumns } from '../../privacy/personal-columns.ts';

/**
 * Reads what is posted of an event: type, timestamp, and data with the row as it is now, as JSON
 * text; null if the delivery was deleted.
 * @param id id of the delivery
 * @param personalData true if names, addresses and other personal data are posted
 */
export async function readEventBody(
  db: Database,
  id: string,
  personalData: boolean,
): Promise<string | null> {
  const { rows } = await selectBody(id, personalData).execute(db);
  return rows[0]?.body ?? null;
}

const selectBody = (id: string, personalData: boolean) =>
  sql<{ body: string }>`
    select json_build_object(
        'type', e.type,
        'timestamp', to_char(e.happened_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
        'data', json_build_object('client', e.client, 'id', coalesce(r.id, e.source_id),
          'number', coalesce(r.number, e.number), 'row', r.row))::text as body
    from sync.deliveries e
    left join lateral (${selectRow(personalData)}) r on true
    where e.id = ${id}`;

/**
 * SQL: the row that event `e` is about, as it is now, with the id and number that a receiver knows
 * it by.
 */
function selectRow(personalData: boolean): RawBuilder<unknown> {
  const row = (alias: string, table: string) =>
    sql`to_jsonb(${sql.ref(alias)}) - ${findHidden(table, personalData)}::text[]`;

  const address = personalData
    ? sql`jsonb_build_object('addresses', (
          select coalesce(jsonb_agg(${row('a', 'order_addresses')} order by a.role), '[]')
          from fulfilment.order_addresses a
          where a.client = o.client and a.order_id = o.id))`
    : sql`'{}'::jsonb`;

  return sql`
      select o.id, o.external_order_number as number,
        ${row('o', 'orders')} || ${address} || jsonb_build_object('items', (
          select coalesce(jsonb_agg(${row('i', 'order_items')} order by i.id), '[]')
          from fulfilment.order_items i
          where i.client = o.client and i.order_id = o.id)) as row
      from fulfilment.outbox x
      join fulfilment.orders o on o.client = x.client
        and o.id = case when x.result ->> 'orderId' ~ '^\\d{1,18}$'
          then (x.result ->> 'orderId')::bigint end
      where e.type = 'order.accepted' and x.id = e.source_id
      union all
      select x.id, x.reference,
        jsonb_build_object('id', x.id, 'kind', x.kind, 'reference', x.reference,
          'status', x.status, 'attempts', x.attempts, 'created_at', x.created_at,
          'finished_at', x.finished_at)
        || case when ${personalData}::boolean then jsonb_build_object('last_error', x.last_error)
          else '{}' end
      from fulfilment.outbox x
      where e.type = 'order.rejected' and x.id = e.source_id
      union all
      select s.id, s.external_order_number,
        ${row('s', 'shipment_overview')} || jsonb_build_object('items', (
          select coalesce(jsonb_agg(${row('i', 'shipment_items')} order by i.id), '[]')
          from fulfilment.shipment_items i
          where i.client = s.client and i.shipment_id = s.id), 'parcels', (
          select coalesce(jsonb_agg(${row('p', 'parcel_overview')} order by p.package_number), '[]')
          from fulfilment.parcel_overview p
          where p.client = s.client and p.shipment_id = s.id and p.unlisted_since is null))
      from fulfilment.shipment_overview s
      where e.type like 'shipment.%' and s.client = e.client and s.id = e.source_id
      union all
      select p.shipment_id, null, ${row('p', 'parcel_overview')}
      from fulfilment.parcel_overview p
      where e.type = 'parcel.tracking_ended' and p.client = e.client and p.shipment_id = e.source_id
        and p.package_number = e.source_key
      union all
      select r.id, r.external_order_number, ${row('r', 'return_items')} || jsonb_build_object(
          'processed_on', sync.real_day(r.processed_on), 'restock_on', sync.real_time(r.restock_on))
      from fulfilment.return_items r
      where e.type = 'return.processed' and r.client = e.client and r.id = e.source_id
      union all
      select n.id, n.reference, ${row('n', 'inbounds')} || jsonb_build_object(
          'created_on', sync.real_time(n.created_on), 'checking_on', sync.real_time(n.checking_on),
          'completed_on', sync.real_time(n.completed_on), 'items', (
          select coalesce(jsonb_agg(${row('i', 'inbound_items')} order by i.id), '[]')
          from fulfilment.inbound_items i
          where i.client = n.client and i.inbound_id = n.id))
      from fulfilment.inbounds n
      where e.type = 'inbound.completed' and n.client = e.client and n.id = e.source_id
      union all
      select null, t.sku, to_jsonb(t)
      from fulfilment.stock_levels t
      where e.type = 'stock.changed' and t.client = e.client and t.sku = e.source_key`;
}

/**
 * Returns the columns of a table that are not posted: the resource as received, and those with
 * personal data.
 */
function findHidden(table: string, personalData: boolean): readonly string[] {
  if (personalData) return ['raw'];
  return [...new Set(['raw', ...findPersonalColumns(table)])];
}
