import { sql, type Transaction } from 'kysely';
import { anyClient } from '../connection/any-client.ts';
import type { DB } from '../generated/tables.ts';
import { maskFamily } from './personal-columns.ts';
import type { Family, MirrorTables } from './tables.ts';

/** A resource that an erasure names: an order, or a return that belongs to no stored order. */
export interface Erasure {
  readonly entity: 'orders' | 'return_items' | 'return_merchandise_authorizations';
  readonly id: number;
  readonly number: string | null;
}

/** Records erasures, so that later readings are masked. The first erasure of a resource stays. */
export async function recordErasures(
  trx: Transaction<DB>,
  client: string,
  by: string,
  erasures: readonly Erasure[],
): Promise<void> {
  await sql`
    insert into sync.erasures (client, entity, id, external_order_number, erased_by)
    select ${client}, e.entity, e.id, e.number, ${by}
    from jsonb_to_recordset(${JSON.stringify(erasures)}::jsonb) as e (entity text, id bigint, number text)
    on conflict do nothing`.execute(trx);
}

/** SQL: true if anything of the client was erased. Postgres evaluates it once per statement, before all other tables. */
const anyErasure = (client: string) => sql`exists (select from sync.erasures where client = ${anyClient(client)})`;

/** The members of a parent row that lead to its order. */
const orderLinks: Readonly<Record<string, readonly ('order' | 'shipment' | 'number')[]>> = {
  orders: [],
  shipments: ['order'],
  return_items: ['order', 'number'],
  return_merchandise_authorizations: ['shipment'],
};

/**
 * Masks the families whose order was erased, and returns the others unchanged. Call it in the transaction that writes
 * them, after it has locked their stream: an erasure locks all streams of orders.
 */
export async function maskErasedFamilies(
  trx: Transaction<DB>,
  client: string,
  tables: MirrorTables,
  families: readonly Family[],
): Promise<readonly Family[]> {
  const table = tables.parent.name;
  const links = orderLinks[table];
  if (links === undefined || families.length === 0) return families;
  const take = (link: 'order' | 'shipment' | 'number', column: string) =>
    families.map(({ parent }) => (links.includes(link) ? (parent[column] ?? null) : null));
  const { rows } = await sql<{ id: number }>`
    with read as (
      select *
      from unnest(${families.map(({ parent }) => parent.id)}::bigint[], ${take('order', 'order_id')}::bigint[],
        ${take('shipment', 'shipment_id')}::bigint[], ${take('number', 'external_order_number')}::text[])
        as i (id, order_id, shipment_id, number)
      where ${anyErasure(client)}
    )
    select i.id
    from read i
    join sync.erasures e on e.client = ${anyClient(client)} and e.entity = ${table} and e.id = i.id
    union
    select i.id
    from read i
    left join fulfilment.shipments s on s.client = ${anyClient(client)} and s.id = i.shipment_id
    join sync.erasures e
      on e.client = ${anyClient(client)} and e.entity = 'orders' and e.id = coalesce(i.order_id, s.order_id)
    union
    select i.id
    from read i
    join sync.erasures e
      on e.client = ${anyClient(client)} and e.entity = 'orders' and e.external_order_number = i.number
    where i.order_id is null`.execute(trx);
  const erased = new Set(rows.map(({ id }) => id));
  if (erased.size === 0) return families;
  return families.map((family) => (erased.has(family.parent.id) ? maskFamily(table, family) : family));
}

/** Returns those of the shipments whose order was erased. */
export async function findErasedShipments(
  trx: Transaction<DB>,
  client: string,
  shipmentIds: readonly number[],
): Promise<ReadonlySet<number>> {
  const { rows } = await sql<{ id: number }>`
    select s.id
    from fulfilment.shipments s
    where ${anyErasure(client)} and s.client = ${anyClient(client)} and s.id = any(${shipmentIds}::bigint[])
      and exists (
        select from sync.erasures e
        where e.client = s.client and e.entity = 'orders' and e.id = s.order_id)`.execute(trx);
  return new Set(rows.map(({ id }) => id));
}
