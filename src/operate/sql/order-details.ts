import type { Kysely } from 'kysely';
import type { DB } from '../../db/generated/tables.ts';

/** Maximum number of lines, shipments, packages and so on that a page shows of an order. */
export const maxParts = 200;

/** An order at the service. Some orders of one number were renamed or sent again. */
export interface OrderHead {
  readonly id: number;
  readonly number: string | null;
  /** One word, as in the view `order_overview`. */
  readonly state: string;
  readonly problem: string | null;
  readonly orderedOn: string | null;
  readonly notBefore: string | null;
  readonly orderType: string | null;
  readonly shippingMethod: string | null;
  readonly unlistedSince: Date | null;
}

/** A line of an order, with its pieces. */
interface OrderLine {
  readonly id: number;
  readonly sku: string | null;
  readonly name: string | null;
  readonly isService: boolean;
  readonly ordered: number | null;
  readonly cancelled: number | null;
  readonly shipped: number;
  readonly toCome: number;
  /** Pieces that are on no shipment. */
  readonly missing: number;
  readonly returned: number;
}

/** A shipment of an order. */
interface OrderShipment {
  readonly id: number;
  readonly status: string | null;
  readonly warehouse: string | null;
  readonly shippingMethod: string | null;
  readonly readyToPickOn: Date | null;
  readonly shippedOn: Date | null;
  readonly unlistedSince: Date | null;
}

/** A package of a shipment. */
interface OrderParcel {
  readonly shipmentId: number;
  readonly packageNumber: string;
  readonly trackingState: string | null;
  readonly trackingSince: Date | null;
  readonly status: string | null;
  /** Address of the carrier's page. It may hold the postcode of the recipient. */
  readonly trackingUrl: string | null;
  readonly unlistedSince: Date | null;
}

/** Pieces that came back and were processed. */
interface OrderReturn {
  readonly id: number;
  readonly sku: string | null;
  readonly quantity: number | null;
  readonly condition: string | null;
  readonly reason: string | null;
  readonly processedOn: string | null;
  readonly restockOn: Date | null;
}

/** A row of the outbox that is not finished. */
interface OrderRow {
  readonly id: number;
  readonly kind: string;
  readonly status: string;
  readonly because: string | null;
  readonly waitsFor: number | null;
}

/** A label or an attachment of an order. */
interface OrderDocument {
  readonly id: number;
  readonly kind: string;
  readonly state: string;
  readonly createdAt: Date;
}

/** What the tables have of an order. */
export interface OrderDetails {
  readonly orders: readonly OrderHead[];
  readonly lines: readonly OrderLine[];
  readonly shipments: readonly OrderShipment[];
  readonly parcels: readonly OrderParcel[];
  readonly returns: readonly OrderReturn[];
  readonly documents: readonly OrderDocument[];
  readonly rows: readonly OrderRow[];
}

/** Names what is read: a number, and the ids that orders with that number have at the service. */
interface OrderKey {
  readonly client: string;
  readonly number: string;
  readonly ids: readonly number[];
}

/** Reads what the tables have of an order, at most `maxParts` of each part. */
export async function readOrderDetails(db: Kysely<DB>, key: OrderKey): Promise<OrderDetails> {
  const [documents, rows] = await Promise.all([readDocuments(db, key), readOpenRows(db, key)]);
  if (key.ids.length === 0)
    return { orders: [], lines: [], shipments: [], parcels: [], returns: [], documents, rows };

  const [orders, lines, shipments, parcels, returns] = await Promise.all([
    readHeads(db, key),
    readLines(db, key),
    readShipments(db, key),
    readParcels(db, key),
    readReturns(db, key),
  ]);
  return { orders, lines, shipments, parcels, returns, documents, rows };
}

const readHeads = (db: Kysely<DB>, { client, ids }: OrderKey): Promise<OrderHead[]> =>
  db
    .selectFrom('fulfilment.order_overview')
    .where('client', '=', client)
    .where('order_id', 'in', ids)
    .select([
      'order_id as id',
      'external_order_number as number',
      'state',
      'problem',
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

const readLines = (db: Kysely<DB>, { client, ids }: OrderKey): Promise<OrderLine[]> =>
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

const readShipments = (db: Kysely<DB>, { client, ids }: OrderKey): Promise<OrderShipment[]> =>
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

const readParcels = (db: Kysely<DB>, { client, ids }: OrderKey): Promise<OrderParcel[]> =>
  db
    .selectFrom('fulfilment.parcel_overview')
    .where('client', '=', client)
    .where('order_id', 'in', ids)
    .select([
      'shipment_id as shipmentId',
      'package_number as packageNumber',
      'tracking_state as trackingState',
      'tracking_since as trackingSince',
      'current_track_trace_status as status',
      'tracking_url as trackingUrl',
      'unlisted_since as unlistedSince',
    ])
    .orderBy('shipment_id')
    .orderBy('package_number')
    .limit(maxParts)
    .$narrowType<{ shipmentId: number; packageNumber: string }>()
    .execute();

const readReturns = (db: Kysely<DB>, { client, ids }: OrderKey): Promise<OrderReturn[]> =>
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

const readDocuments = (db: Kysely<DB>, { client, number }: OrderKey): Promise<OrderDocument[]> =>
  db
    .selectFrom('fulfilment.documents')
    .where('client', '=', client)
    .where('reference', '=', number)
    .select(['id', 'kind', 'state', 'created_at as createdAt'])
    .orderBy('id')
    .limit(maxParts)
    .execute();

const readOpenRows = (db: Kysely<DB>, { client, number }: OrderKey): Promise<OrderRow[]> =>
  db
    .selectFrom('fulfilment.outbox_open')
    .where('client', '=', client)
    .where('reference', '=', number)
    .select(['id', 'kind', 'status', 'because', 'waits_for as waitsFor'])
    .orderBy('id')
    .limit(maxParts)
    .$narrowType<{ id: number; kind: string; status: string }>()
    .execute();
