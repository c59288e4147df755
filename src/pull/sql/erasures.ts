import { type RawBuilder, sql, type Transaction } from 'kysely';
import type { Json } from '../../core/json.ts';
import { maskJson, toPostcodeArea } from '../../core/personal-data.ts';
import type { DB } from '../../db/generated/tables.ts';
import { anyClient } from '../../db/values.ts';
import {
  type MirrorTable,
  type MirrorTables,
  type PersonalColumns,
  type ResourceRows,
  rowSet,
} from './mirror-tables.ts';

/**
 * A resource that an erasure names: an order, a shipment or return that belongs to no stored order,
 * or an order.create row. Such a row means an order that the service may have, whose id is not
 * known.
 */
export interface Erasure {
  readonly entity:
    | 'orders'
    | 'outbox'
    | 'return_items'
    | 'return_merchandise_authorizations'
    | 'shipments';
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
    from jsonb_to_recordset(${JSON.stringify(erasures)}::jsonb)
      as e (entity text, id bigint, number text)
    on conflict do nothing`.execute(trx);
}

/**
 * SQL: true if anything of the client was erased. Postgres evaluates it once per statement, before
 * all other tables. The order makes it use the key: otherwise it could read all erasures of other
 * clients.
 */
export const anyErasure = (client: string) => sql`(
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

/** The columns of rows that lead to their orders. A table has some of them. */
export const linkColumns = {
  order_id: 'bigint',
  shipment_id: 'bigint',
  order_item_id: 'bigint',
  shipment_item_id: 'bigint',
  return_merchandise_authorization_item_id: 'bigint',
  external_order_number: 'text',
} as const;

/**
 * SQL: true if the ERP sent the order of an erased order.create again, so its number names newer
 * data.
 */
export const isSentAgain = sql`exists (
  select from fulfilment.outbox o
  where o.client = e.client and o.reference = e.external_order_number
    and o.kind in ('order.create', 'order.replace') and o.id > e.id
    and o.erased_at is null)`;

/**
 * Records the erasures of orders that are read for the first time: from now on their ids name them.
 */
async function identifyOrders(
  trx: Transaction<DB>,
  client: string,
  read: readonly { readonly number: unknown; readonly orderId: unknown }[],
): Promise<void> {
  const known = read.filter(({ number, orderId }) => number != null && orderId != null);
  if (known.length === 0) return;

  await sql`
    with i as (
      select *
      from unnest(${known.map(({ number }) => number)}::text[],
        ${known.map(({ orderId }) => orderId)}::bigint[])
        as i (number, order_id)
    ), met as materialized (
      select e.*
      from sync.erasures e
      where e.client = ${anyClient(client)} and e.entity = 'outbox' and e.external_order_number in (
        select number from i)
      order by e.id
      for update
    ), spent as (
      delete from sync.erasures e
      using met m
      where e.client = m.client and e.entity = m.entity and e.id = m.id
    )
    insert into sync.erasures (client, entity, id, external_order_number, erased_at, erased_by)
    select e.client, 'orders', i.order_id, e.external_order_number, e.erased_at, e.erased_by
    from met e
    join i on i.number = e.external_order_number
    where not ${isSentAgain}
    on conflict do nothing`.execute(trx);
}

/**
 * Masks the resources whose order was erased, and returns the others unchanged. Call it in the
 * transaction that writes them, after it has locked their stream: an erasure locks all streams of
 * orders. It changes nothing if the client has no erasure.
 */
export async function maskErasedResources<Of extends ResourceRows>(
  trx: Transaction<DB>,
  client: string,
  tables: MirrorTables,
  resources: readonly Of[],
): Promise<readonly Of[]> {
  const { name: table, personal } = tables.parent;
  if (personal === undefined || resources.length === 0) return resources;

  const parents = resources.map(({ parent }) => parent);
  const idColumn = table === 'orders' ? 'id' : 'order_id';
  const read = parents.map((row) => ({
    number: row.external_order_number,
    orderId: row[idColumn],
  }));
  await identifyOrders(trx, client, read);

  // Another order may have had the number of an order.
  const links = table === 'orders' ? parents.map(({ id }) => ({ id })) : parents;
  const erased = await findErasedParents(trx, client, table, links);
  return resources.map((resource) =>
    erased.has(resource.parent.id) ? maskResource(tables, resource) : resource,
  );
}

/**
 * SQL: the id of the order to which a row leads by its shipment, its line, its shipment line, or
 * its line of an announced return; null if it is not known.
 * @param row name of the row, with the columns of `linkColumns`
 * @param shipmentId its shipment, if the row has no such column
 */
export const findLinkedOrder = (
  client: string,
  row: string,
  shipmentId: RawBuilder<unknown> = sql.ref(`${row}.shipment_id`),
) => sql`coalesce((
    select s.order_id
    from fulfilment.shipments s
    where s.client = ${anyClient(client)} and s.id = ${shipmentId}), (
    select l.order_id
    from fulfilment.order_items l
    where l.client = ${anyClient(client)} and l.id = ${sql.ref(`${row}.order_item_id`)}), (
    select s.order_id
    from fulfilment.shipment_items l
    join fulfilment.shipments s on s.client = l.client and s.id = l.shipment_id
    where l.client = ${anyClient(client)} and l.id = ${sql.ref(`${row}.shipment_item_id`)}), (
    select s.order_id
    from fulfilment.return_merchandise_authorization_items n
    left join fulfilment.return_merchandise_authorizations a
      on a.client = n.client and a.id = n.return_merchandise_authorization_id
    left join fulfilment.shipment_items l on l.client = n.client and l.id = n.shipment_item_id
    join fulfilment.shipments s
      on s.client = n.client and s.id = coalesce(a.shipment_id, l.shipment_id)
    where n.client = ${anyClient(client)}
      and n.id = ${sql.ref(`${row}.return_merchandise_authorization_item_id`)}))`;

/**
 * Finds the rows whose order was erased. Each erasure is looked up by its key. As joins, they would
 * read all erasures while statistics do not know them.
 */
async function findErasedParents(
  trx: Transaction<DB>,
  client: string,
  table: string,
  parents: readonly { readonly id: number }[],
): Promise<ReadonlySet<number>> {
  const orderId = sql`coalesce(i.order_id, ${findLinkedOrder(client, 'i')})`;

  const { rows } = await sql<{ id: number }>`
    with found as materialized (
      select i.id, ${findErasure(client, table, sql`i.id`)} as own,
        ${findErasure(client, 'orders', orderId)} as of_order,
        (select e.id
          from sync.erasures e
          where i.order_id is null and e.client = ${anyClient(client)}
            and e.external_order_number = i.external_order_number
            and e.entity in ('orders', 'outbox')
          limit 1) as by_number
      from ${rowSet({ id: 'bigint', ...linkColumns }, parents)}
      where ${anyErasure(client)}
    )
    select id
    from found
    where coalesce(own, of_order, by_number) is not null`.execute(trx);
  return new Set(rows.map(({ id }) => id));
}

/** Returns those of the shipments that were erased, alone or with their order. */
export async function findErasedShipments(
  trx: Transaction<DB>,
  client: string,
  shipmentIds: readonly number[],
): Promise<ReadonlySet<number>> {
  const links = shipmentIds.map((id) => ({ id, shipment_id: id }));
  return findErasedParents(trx, client, 'shipments', links);
}

/** What replaces an error, which may repeat words of the payload or of the service. */
export const erasedError = 'erased';

function mask(effect: PersonalColumns[string], value: unknown): unknown {
  if (effect === 'null' || value === null || value === undefined) return null;
  if (effect === 'area') return toPostcodeArea(value);
  return effect === 'word' ? erasedError : maskJson(value as Json);
}

/** Returns a row of a table without personal data. */
export function maskRow<Row extends { readonly [column: string]: unknown }>(
  { personal = {} }: MirrorTable,
  row: Row,
): Row {
  const masked = Object.entries(personal).map(([column, effect]) => [
    column,
    mask(effect, row[column]),
  ]);
  return { ...row, ...Object.fromEntries(masked) };
}

/** Returns a resource without personal data. */
export function maskResource<Of extends ResourceRows>(tables: MirrorTables, resource: Of): Of {
  const children = resource.children.map(({ table, rows, complete }) => {
    const child = tables.children.find(({ name }) => name === table);
    return { table, complete, rows: child ? rows.map((row) => maskRow(child, row)) : rows };
  });
  return { ...resource, parent: maskRow(tables.parent, resource.parent), children };
}
