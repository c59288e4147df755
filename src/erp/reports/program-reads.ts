/** What the API reads: rows of one client, as JSON text in which numbers keep their digits. */

import { type Kysely, type RawBuilder, sql } from 'kysely';
import { anyClient } from '../connection/values.ts';
import type { DB } from '../generated/tables.ts';

/** Columns that programs do not need: the resource as received, and what only workers use. */
const left = sql`'{raw,read_no,ordered_quantity}'::text[]`;

const readDocuments = async (db: Kysely<DB>, query: RawBuilder<{ document: string }>) =>
  (await query.execute(db)).rows.map(({ document }) => document);

/** Reads orders with their state, items, addresses and shipments: by id, or all that have a number, newest first. */
export const readOrderDocuments = (db: Kysely<DB>, client: string, by: { id: number } | { number: string }) =>
  readDocuments(
    db,
    sql<{ document: string }>`
      select (to_jsonb(o) - ${left} || jsonb_build_object(
        'state', v.state,
        'problem_code', v.problem_code,
        'problem', v.problem,
        'items', (
          select coalesce(jsonb_agg(to_jsonb(i) - ${left} order by i.id), '[]')
          from fulfilment.order_items i
          where i.client = o.client and i.order_id = o.id),
        'addresses', (
          select coalesce(jsonb_agg(to_jsonb(a) - ${left} order by a.role desc), '[]')
          from fulfilment.order_addresses a
          where a.client = o.client and a.order_id = o.id),
        'shipments', (
          select coalesce(jsonb_agg(jsonb_build_object('id', s.id, 'status', s.status) order by s.id), '[]')
          from fulfilment.shipments s
          where s.client = o.client and s.order_id = o.id)))::text as document
      from fulfilment.orders o
      join fulfilment.order_overview v on v.client = o.client and v.order_id = o.id
      where o.client = ${anyClient(client)}
        and ${'id' in by ? sql`o.id = ${by.id}` : sql`o.external_order_number = ${by.number}`}
      order by o.id desc`,
  );

/** Reads a shipment with the number of its order, its items and its parcels. */
export const readShipmentDocuments = (db: Kysely<DB>, client: string, id: number) =>
  readDocuments(
    db,
    sql<{ document: string }>`
      select ((to_jsonb(v) || to_jsonb(s)) - ${left} || jsonb_build_object(
        'items', (
          select coalesce(jsonb_agg(to_jsonb(i) - ${left} order by i.id), '[]')
          from fulfilment.shipment_items i
          where i.client = s.client and i.shipment_id = s.id),
        'parcels', (
          select coalesce(jsonb_agg(jsonb_build_object(
            'package_number', p.package_number, 'track_and_trace_code', p.track_and_trace_code,
            'tracking_url', p.tracking_url, 'current_track_trace_status', p.current_track_trace_status,
            'unlisted_since', p.unlisted_since) order by p.package_number), '[]')
          from fulfilment.parcel_overview p
          where p.client = s.client and p.shipment_id = s.id)))::text as document
      from fulfilment.shipments s
      join fulfilment.shipment_overview v on v.client = s.client and v.id = s.id
      where s.client = ${anyClient(client)} and s.id = ${id}`,
  );

/** Reads a return item. */
export const readReturnItemDocuments = (db: Kysely<DB>, client: string, id: number) =>
  readDocuments(
    db,
    sql<{ document: string }>`
      select (to_jsonb(r) - ${left})::text as document
      from fulfilment.return_items r
      where r.client = ${anyClient(client)} and r.id = ${id}`,
  );

/** Reads the stock of an article. */
export const readStockDocuments = (db: Kysely<DB>, client: string, sku: string) =>
  readDocuments(
    db,
    sql<{ document: string }>`
      select to_jsonb(l)::text as document
      from fulfilment.stock_levels l
      where l.client = ${anyClient(client)} and l.sku = ${sku}`,
  );

/** An entry of the feed, or nulls if there is none, and what the whole read looked at. */
interface FoundEntry {
  readonly seq: number | null;
  readonly entity: string;
  readonly id: number | null;
  readonly key: string | null;
  readonly operation: string;
  readonly changedColumns: readonly string[] | null;
  readonly changedAt: Date;
  readonly lastSeq: number | null;
  readonly searched: number;
}

/** Number of entries of all clients that one read looks at. */
const entriesSearched = 5_000;

/**
 * Reads the changes of one client after a place in the feed. Entries commit in the order of `seq`, so none is skipped.
 * @returns also `next`, up to which every entry of the client was returned, here or earlier; `hasMore` is true if there
 *   may be more already
 * @throws a database error 22023 with the reason if entries after this place were pruned, or if it was never used
 */
export async function readClientChanges(db: Kysely<DB>, client: string, after: number, limit: number) {
  const { rows } = await sql<FoundEntry>`
    with searched as materialized (
      select *
      from fulfilment.changes_since(${after}, ${entriesSearched})
    ), own as (
      select seq, entity, id, key, operation, changed_columns as "changedColumns", changed_at as "changedAt"
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
  return { changes, next, hasMore: isCut || searched === entriesSearched };
}
