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

  const list = (table: string, order: string, ofParent: RawBuilder<unknown>) => sql`(
          select coalesce(jsonb_agg(${row('c', table)} order by ${sql.ref(`c.${order}`)}), '[]')
          from ${sql.table(`fulfilment.${table}`)} c
          where ${ofParent})`;

  const ofOrder = sql`c.client = o.client and c.order_id = o.id`;
  const address = personalData
    ? sql`jsonb_build_object('addresses', ${list('order_addresses', 'role', ofOrder)})`
    : sql`'{}'::jsonb`;
  const ofShipment = sql`c.client = s.client and c.shipment_id = s.id`;
  const parcels = list(
    'parcel_overview',
    'package_number',
    sql`
            ${ofShipment} and c.unlisted_since is null`,
  );
  const ofInbound = sql`c.client = n.client and c.inbound_id = n.id`;

  return sql`
      select o.id, o.external_order_number as number,
        ${row('o', 'orders')} || ${address}
          || jsonb_build_object('items', ${list('order_items', 'id', ofOrder)}) as row
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
        ${row('s', 'shipment_overview')} || jsonb_build_object(
          'items', ${list('shipment_items', 'id', ofShipment)}, 'parcels', ${parcels})
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
          'completed_on', sync.real_time(n.completed_on),
          'items', ${list('inbound_items', 'id', ofInbound)})
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
