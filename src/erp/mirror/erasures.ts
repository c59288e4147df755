import { type RawBuilder, sql, type Transaction } from 'kysely';
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

/**
 * SQL: true if anything of the client was erased. Postgres evaluates it once per statement, before all other tables. The
 * order makes it use the key: otherwise it could read all erasures of other clients.
 */
const anyErasure = (client: string) => sql`(
  select e.client
  from sync.erasures e
  where e.client = ${anyClient(client)}
  order by e.entity, e.id
  limit 1) is not null`;

/** SQL: the id of a resource if it was erased, looked up by the key of sync.erasures. */
const findErasure = (client: string, entity: string, id: RawBuilder<unknown>) => sql`(
  select e.id
  from sync.erasures e
  where e.client = ${anyClient(client)} and e.entity = ${entity} and e.id = ${id})`;

/** The members of a parent row that lead to its order. */
const orderLinks: Readonly<Record<string, readonly ('order' | 'shipment' | 'number')[]>> = {
  orders: [],
  shipments: ['order'],
  return_items: ['order', 'number'],
  return_merchandise_authorizations: ['shipment'],
};

/** Returns true if anything of the client was erased. Most pages need only this. */
async function hasErasures(trx: Transaction<DB>, client: string): Promise<boolean> {
  const first = trx.selectFrom('sync.erasures').select('id').where('client', '=', anyClient(client));
  return (await first.orderBy('entity').orderBy('id').limit(1).executeTakeFirst()) !== undefined;
}

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
  if (links === undefined || families.length === 0 || !(await hasErasures(trx, client))) return families;
  const take = (link: 'order' | 'shipment' | 'number', column: string) =>
    families.map(({ parent }) => (links.includes(link) ? (parent[column] ?? null) : null));
  const ids = families.map(({ parent }) => parent.id);
  // Each erasure is looked up by its key. As joins, they would read all erasures while statistics do not know them.
  const { rows } = await sql<{ id: number }>`
    with read as materialized (
      select *
      from unnest(${ids}::bigint[], ${take('order', 'order_id')}::bigint[],
        ${take('shipment', 'shipment_id')}::bigint[], ${take('number', 'external_order_number')}::text[])
        as i (id, order_id, shipment_id, number)
      where ${anyErasure(client)}
    ), found as materialized (
      select i.id, ${findErasure(client, table, sql`i.id`)} as own,
        ${findErasure(
          client,
          'orders',
          sql`coalesce(i.order_id, (
          select s.order_id
          from fulfilment.shipments s
          where s.client = ${anyClient(client)} and s.id = i.shipment_id))`,
        )} as of_order,
        (select e.id
          from sync.erasures e
          where i.order_id is null and e.client = ${anyClient(client)} and e.entity = 'orders'
            and e.external_order_number = i.number
          limit 1) as by_number
      from read i
    )
    select id
    from found
    where coalesce(own, of_order, by_number) is not null`.execute(trx);
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
    with found as materialized (
      select s.id, ${findErasure(client, 'orders', sql`s.order_id`)} as erased
      from fulfilment.shipments s
      where ${anyErasure(client)} and s.client = ${anyClient(client)} and s.id = any(${shipmentIds}::bigint[])
    )
    select id
    from found
    where erased is not null`.execute(trx);
  return new Set(rows.map(({ id }) => id));
}
