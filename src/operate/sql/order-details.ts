import type { Kysely } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';

/** Maximum number of lines, shipments, packages and so on that a page shows of an order. */
export const maxParts = 200;

/** An id that no order has: a list of SQL must not be empty. */
const noId = 0;

/** Names what is read: a number, and the ids that orders with that number have at the service. */
interface OrderKey {
  readonly client: string;
  readonly number: string;
  readonly ids: readonly number[];
}

/**
 * What the tables have of the orders with a number, with documents and rows that are not finished.
 * Some orders were renamed or sent again.
 */
export type OrderDetails = Awaited<ReturnType<typeof readOrderDetails>>;

/** An order at the service. Its state is one word, as in the view `order_overview`. */
export type OrderHead = OrderDetails['orders'][number];

/** Reads what the tables have of an order, at most `maxParts` of each part. */
export async function readOrderDetails(db: Kysely<DB>, wanted: OrderKey) {
  const key = { ...wanted, ids: wanted.ids.length === 0 ? [noId] : wanted.ids };
  const [orders, lines, shipments, parcels, returns, documents, rows] = await Promise.all([
    readHeads(db, key),
    readLines(db, key),
    readShipments(db, key),
    readParcels(db, key),
    readReturns(db, key),
    readDocuments(db, key),
    readOpenRows(db, key),
  ]);
  return { orders, lines, shipments, parcels, returns, documents, rows };
}

const readHeads = (db: Kysely<DB>, { client, ids }: OrderKey) =>
  db
    .selectFrom('fulfilment.order_overview')
    .where('client', '=', client)
    .where('order_id', 'in', ids)
    .select([
      'order_id as id',
      'external_order_number as number',
      'state',
      'problem',
      'problem_code as problemCode',
      'ordered_on as orderedOn',
      'preferred_shipping_date as notBefore',
      'order_type_name as orderType',
      'shipping_method_name as shippingMethod',
      'unlisted_since as unlistedSince',
    ])
    .orderBy('order_id')
    .limit(maxParts)
    .$narrowType<{ id: number; state: string }>()
    .execute();

const readLines = (db: Kysely<DB>, { client, ids }: OrderKey) =>
  db
    .selectFrom('fulfilment.order_lines')
    .where('client', '=', client)
    .where('order_id', 'in', ids)
    .select([
      'order_item_id as id',
      'sku',
      'name',
      'is_service as isService',
      'ordered',
      'cancelled',
      'shipped',
      'to_come as toCome',
      'missing',
      'returned',
    ])
    .orderBy('order_item_id')
    .limit(maxParts)
    .$narrowType<{
      id: number;
      isService: boolean;
      shipped: number;
      toCome: number;
      missing: number;
      returned: number;
    }>()
    .execute();

const readShipments = (db: Kysely<DB>, { client, ids }: OrderKey) =>
  db
    .selectFrom('fulfilment.shipment_overview')
    .where('client', '=', client)
    .where('order_id', 'in', ids)
    .select([
      'id',
      'status',
      'warehouse_code as warehouse',
      'shipping_method_name as shippingMethod',
      'ready_to_pick_on as readyToPickOn',
      'shipped_on as shippedOn',
      'unlisted_since as unlistedSince',
    ])
    .orderBy('id')
    .limit(maxParts)
    .$narrowType<{ id: number }>()
    .execute();

/** Reads the packages. The tracking link may hold the postcode of the recipient. */
const readParcels = (db: Kysely<DB>, { client, ids }: OrderKey) =>
  db
    .selectFrom('fulfilment.parcel_overview')
    .where('client', '=', client)
    .where('order_id', 'in', ids)
    .select([
      'shipment_id as shipmentId',
      'package_number as packageNumber',
      'tracking_state as trackingState',
      'current_track_trace_status as status',
      'tracking_url as trackingUrl',
      'unlisted_since as unlistedSince',
    ])
    .orderBy('shipment_id')
    .orderBy('package_number')
    .limit(maxParts)
    .$narrowType<{ shipmentId: number; packageNumber: string }>()
    .execute();

const readReturns = (db: Kysely<DB>, { client, ids }: OrderKey) =>
  db
    .selectFrom('fulfilment.return_overview')
    .where('client', '=', client)
    .where('order_id', 'in', ids)
    .select([
      'return_item_id as id',
      'sku',
      'quantity',
      'condition',
      'return_reason_name as reason',
      'processed_on as processedOn',
      'restock_on as restockOn',
    ])
    .orderBy('return_item_id')
    .limit(maxParts)
    .$narrowType<{ id: number }>()
    .execute();

const readDocuments = (db: Kysely<DB>, { client, number }: OrderKey) =>
  db
    .selectFrom('fulfilment.documents')
    .where('client', '=', client)
    .where('reference', '=', number)
    .select(['id', 'kind', 'state', 'created_at as createdAt'])
    .orderBy('id')
    .limit(maxParts)
    .execute();

const readOpenRows = (db: Kysely<DB>, { client, number }: OrderKey) =>
  db
    .selectFrom('fulfilment.outbox_open')
    .where('client', '=', client)
    .where('reference', '=', number)
    .select(['id', 'kind', 'status', 'because', 'waits_for as waitsFor'])
    .orderBy('id')
    .limit(maxParts)
    .$narrowType<{ id: number; kind: string; status: string }>()
    .execute();
