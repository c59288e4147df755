/** What the API reads: rows of one client, as JSON text in which numbers keep their digits. */

import { type Kysely, type RawBuilder, sql } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';
import { type ColumnType, readColumns } from '../../db/table-columns.ts';
import { anyClient } from '../../db/values.ts';

/** Columns that programs do not need: the resource as received, and what only workers use. */
const hiddenColumns: readonly string[] = ['raw', 'read_no', 'ordered_quantity', 'missing_since'];
const hidden = sql`${hiddenColumns}::text[]`;

/** A table of the feed that programs read row by row. */
interface Entity {
  /** Key columns besides the client. Several are joined by colons, as in the feed. */
  readonly key: readonly string[];
  /** SQL of a JSON object with what the row `t` has besides its columns. */
  readonly more?: RawBuilder<unknown>;
}

const byId: Entity = { key: ['id'] };
const byShipmentAndPackage: Entity = { key: ['shipment_id', 'package_number'] };

/** SQL: the rows of a table that belong to the row `t`, as a JSON array. */
const listRows = (table: string, parent: string, order = sql`c.id`) => sql`(
        select coalesce(jsonb_agg(to_jsonb(c) - ${hidden} order by ${order}), '[]')
        from ${sql.table(`fulfilment.${table}`)} c
        where c.client = t.client and ${sql.ref(`c.${parent}`)} = t.id)`;

/** SQL: the state of an order, its lines, its addresses and its shipments. */
const orderParts = sql`(
      select jsonb_build_object('state', v.state, 'problem_code', v.problem_code, 'problem',
        v.problem)
      from fulfilment.order_overview v
      where v.client = t.client and v.order_id = t.id
    ) || jsonb_build_object(
      'items', ${listRows('order_items', 'order_id')},
      'addresses', ${listRows('order_addresses', 'order_id', sql`c.role desc`)},
      'shipments', (
        select coalesce(jsonb_agg(jsonb_build_object('id', s.id, 'status', s.status) order by s.id),
          '[]')
        from fulfilment.shipments s
        where s.client = t.client and s.order_id = t.id))`;

/** SQL: the names of a shipment's codes, its items and its parcels. */
const shipmentParts = sql`(
      select to_jsonb(v) - ${hidden}
      from fulfilment.shipment_overview v
      where v.client = t.client and v.id = t.id
    ) || jsonb_build_object(
      'items', ${listRows('shipment_items', 'shipment_id')},
      'parcels', (
        select coalesce(jsonb_agg(jsonb_build_object(
          'package_number', p.package_number, 'track_and_trace_code', p.track_and_trace_code,
          'tracking_url', p.tracking_url, 'current_track_trace_status',
            p.current_track_trace_status,
          'unlisted_since', p.unlisted_since) order by p.package_number), '[]')
        from fulfilment.parcel_overview p
        where p.client = t.client and p.shipment_id = t.id))`;

/** SQL: the lines of an inbound or of an inbound packing slip. */
const goodsParts = (table: string, parent: string) =>
  sql`jsonb_build_object('items', ${listRows(table, parent)})`;

/** The tables that the feed names, except the outbox, whose rows are read with their history. */
export const entities = {
  orders: { key: ['id'], more: orderParts },
  order_items: byId,
  order_addresses: { key: ['order_id', 'role'] },
  shipments: { key: ['id'], more: shipmentParts },
  shipment_items: byId,
  return_items: byId,
  return_merchandise_authorizations: byId,
  return_merchandise_authorization_items: byId,
  inbounds: { key: ['id'], more: goodsParts('inbound_items', 'inbound_id') },
  inbound_items: byId,
  inbound_packing_slips: {
    key: ['id'],
    more: goodsParts('inbound_packing_slip_items', 'inbound_packing_slip_id'),
  },
  inbound_packing_slip_items: byId,
  track_traces: byShipmentAndPackage,
  parcels: byShipmentAndPackage,
  documents: byId,
  setting_options: { key: ['list', 'id'] },
  main_shipping_method_warehouses: {
    key: ['main_shipping_method_id', 'shipping_method_id', 'warehouse'],
  },
  stock_levels: { key: ['sku'] },
} as const satisfies Readonly<Record<string, Entity>>;

export type EntityName = keyof typeof entities;

const findType = (entity: EntityName, column: string) => readColumns(entity).get(column)?.type;

/** Returns the columns of an entity that programs read. */
export const listEntityColumns = (entity: EntityName): ReadonlyMap<string, ColumnType> =>
  new Map([...readColumns(entity)].filter(([column]) => !hiddenColumns.includes(column)));

/**
 * Reads the row that an entry of the feed names.
 * @param id the `id` of the entry, or its `key` if it has one
 * @returns the row as JSON text; null if the client has no such row
 */
export async function readEntity(
  db: Kysely<DB>,
  client: string,
  entity: EntityName,
  id: string,
): Promise<string | null> {
  const { key }: Entity = entities[entity];
  const values = splitKey(id, key.length);
  const types = key.map((column) => findType(entity, column));
  const isKey = values.every((value, index) => types[index] !== 'bigint' || isBigint(value));
  if (values.length !== key.length || !isKey) return null;

  const conditions = key.map((column, index) => {
    const value = sql`${values[index]}::${sql.raw(types[index] ?? 'text')}`;
    return sql`${sql.ref(`t.${column}`)} = ${value}`;
  });

  const [found] = await readDocuments(db, client, entity, sql.join(conditions, sql` and `));
  return found ?? null;
}

/** Reads the orders that have a number, newest first, each as JSON text. */
export const readOrdersByNumber = (
  db: Kysely<DB>,
  client: string,
  number: string,
): Promise<string[]> =>
  readDocuments(db, client, 'orders', sql`t.external_order_number = ${number}`);

/** Maximum number of rows that one read returns. Orders with one number are few. */
const maxDocuments = 100;

async function readDocuments(
  db: Kysely<DB>,
  client: string,
  entity: EntityName,
  condition: RawBuilder<unknown>,
): Promise<string[]> {
  const { key, more }: Entity = entities[entity];
  const first = sql.ref(`t.${key[0]}`);
  const parts = more === undefined ? sql`` : sql` || ${more}`;

  const { rows } = await sql<{ document: string }>`
    select (to_jsonb(t) - ${hidden}${parts})::text as document
    from ${sql.table(`fulfilment.${entity}`)} t
    where t.client = ${anyClient(client)} and ${condition}
    order by ${first} desc
    limit ${maxDocuments}`.execute(db);

  return rows.map(({ document }) => document);
}

/** Splits a key at its first colons: the last part may have colons, too. */
function splitKey(text: string, parts: number): string[] {
  const pieces = text.split(':');
  if (pieces.length < parts) return pieces;
  return [...pieces.slice(0, parts - 1), pieces.slice(parts - 1).join(':')];
}

const isBigint = (text: string) => /^\d{1,18}$/.test(text);

/** An entry of the feed, or nulls if there is none, and what the whole read looked at. */
interface FoundEntry {
  readonly seq: number | null;
  readonly entity: string;
  readonly id: number | null;
  readonly key: string | null;
  readonly operation: string;
  readonly changed_columns: readonly string[] | null;
  readonly changed_at: Date;
  readonly lastSeq: number | null;
  readonly searched: number;
}

/** Number of entries of all clients that one read looks at. */
const entriesSearched = 5_000;

/**
 * Reads the changes of one client after a place in the feed. Entries commit in the order of `seq`,
 * so none is skipped.
 * @returns also `next`, up to which every entry of the client was returned, here or earlier;
 *   `has_more` is true if there may be more already
 * @throws a database error 22023 with the reason if entries after this place were pruned, or if it
 *   was never used
 */
export async function readClientChanges(
  db: Kysely<DB>,
  client: string,
  after: number,
  limit: number,
) {
  const { rows } = await sql<FoundEntry>`
    with searched as materialized (
      select *
      from fulfilment.changes_since(${after}, ${entriesSearched})
    ), own as (
      select seq, entity, id, key, operation, changed_columns, changed_at
      from searched
      where client = ${client}
      order by seq
      limit ${limit}
    )
    select s."lastSeq", s.searched, o.*
    from (select max(seq) as "lastSeq", count(*)::integer as searched from searched) s
    left join own o on true
    order by o.seq`.execute(db);

  const [{ lastSeq, searched } = { lastSeq: null, searched: 0 }] = rows;
  const changes = rows.flatMap(({ lastSeq: _last, searched: _searched, seq, ...entry }) =>
    seq === null ? [] : [{ seq, ...entry }],
  );

  const isCut = changes.length === limit;
  const next = (isCut ? changes.at(-1)?.seq : lastSeq) ?? after;
  return { changes, next, has_more: isCut || searched === entriesSearched };
}

/**
 * Returns the place after the newest entry of the feed: a reader whose place is no longer kept
 * continues there.
 */
export async function readNewestSeq(db: Kysely<DB>): Promise<number> {
  const { rows } = await sql<{ seq: number }>`
    select greatest(
      (select pruned_until from sync.feed_mark),
      (select c.seq from fulfilment.changes c order by c.seq desc limit 1)) as seq`.execute(db);
  return rows[0]?.seq ?? 0;
}
