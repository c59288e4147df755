import { sql } from 'kysely';
import type { Database } from './connect.ts';

/** A shipment with its lines as stored, for comparing with another source and for showing to people. */
export interface ShipmentSnapshot {
  readonly id: number;
  readonly status: string | null;
  /** Instants in UTC to the microsecond, `YYYY-MM-DDTHH:MM:SS.ffffffZ`. */
  readonly readyToPickOn: string | null;
  readonly readyToShipOn: string | null;
  readonly shippedOn: string | null;
  readonly warehouseCode: string | null;
  readonly returnLabel: string | null;
  readonly orderId: number | null;
  readonly orderTypeId: number | null;
  readonly shippingMethodId: number | null;
  readonly externalOrderNumber: string | null;
  readonly raw: unknown;
  readonly items: readonly {
    readonly id: number;
    readonly sku: string | null;
    readonly quantity: number | null;
    readonly lotNumber: string | null;
    readonly expirationDate: string | null;
    readonly serialNumbers: readonly string[];
    readonly orderItemId: number | null;
    readonly productId: number | null;
    readonly raw: unknown;
  }[];
}

/** An order as stored. */
export interface OrderSnapshot {
  readonly id: number;
  readonly externalOrderNumber: string | null;
  readonly reference: string | null;
  readonly orderedOn: string | null;
  readonly currency: string | null;
  readonly locale: string | null;
  readonly email: string | null;
  readonly allowPartialDelivery: boolean | null;
  readonly onHold: boolean | null;
  readonly metadata: unknown;
  readonly orderTypeId: number | null;
  readonly deliveryAddressId: number | null;
  readonly billingAddressId: number | null;
  readonly pickUpPointId: number | null;
  readonly preferredShippingMethodId: number | null;
  readonly raw: unknown;
}

/** A return item as stored. */
export interface ReturnItemSnapshot {
  readonly id: number;
  readonly sku: string | null;
  readonly quantity: number | null;
  readonly condition: string | null;
  readonly processedOn: string | null;
  readonly processedIn: string | null;
  readonly restockIn: string | null;
  /** Instant in UTC to the microsecond. */
  readonly restockOn: string | null;
  readonly comment: string | null;
  readonly redeliver: boolean | null;
  readonly externalOrderNumber: string | null;
  readonly orderId: number | null;
  readonly orderItemId: number | null;
  readonly productId: number | null;
  readonly returnId: number | null;
  readonly returnMerchandiseAuthorizationItemId: number | null;
  readonly returnReasonId: number | null;
  readonly shipmentItemId: number | null;
  readonly raw: unknown;
}

/** An inbound with its lines as stored. */
export interface InboundSnapshot {
  readonly id: number;
  readonly reference: string | null;
  readonly status: string | null;
  readonly receivedIn: string | null;
  /** Instants in UTC to the microsecond. */
  readonly createdOn: string | null;
  readonly checkingOn: string | null;
  readonly completedOn: string | null;
  readonly inboundPackingSlipId: number | null;
  readonly raw: unknown;
  readonly items: readonly {
    readonly id: number;
    readonly sku: string | null;
    readonly quantity: number | null;
    readonly lotNumber: string | null;
    readonly expirationDate: string | null;
    readonly productId: number | null;
    readonly inboundPackingSlipItemId: number | null;
    readonly raw: unknown;
  }[];
}

const utcText = (column: string) =>
  sql`to_char(${sql.ref(column)} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`;

/** All shipments of one client in order of id. For small databases: the demo and the tests. */
export async function readShipments(db: Database, client: string): Promise<ShipmentSnapshot[]> {
  const { rows } = await sql<ShipmentSnapshot>`
    select s.id, s.status, ${utcText('s.ready_to_pick_on')} as "readyToPickOn",
      ${utcText('s.ready_to_ship_on')} as "readyToShipOn", ${utcText('s.shipped_on')} as "shippedOn",
      s.warehouse_code as "warehouseCode", s.return_label as "returnLabel", s.order_id as "orderId",
      s.order_type_id as "orderTypeId", s.shipping_method_id as "shippingMethodId",
      s.external_order_number as "externalOrderNumber", s.raw,
      coalesce(i.items, '[]'::json) as items
    from fulfilment.shipments s
    left join lateral (
      select json_agg(json_build_object('id', i.id, 'sku', i.sku, 'quantity', i.quantity, 'lotNumber', i.lot_number,
        'expirationDate', i.expiration_date, 'serialNumbers', i.serial_numbers, 'orderItemId', i.order_item_id,
        'productId', i.product_id, 'raw', i.raw)
        order by i.id) as items
      from fulfilment.shipment_items i where i.client = s.client and i.shipment_id = s.id
    ) i on true
    where s.client = ${client} order by s.id`.execute(db);
  return rows;
}

/** All orders of one client in order of id. For small databases: the demo and the tests. */
export async function readOrders(db: Database, client: string): Promise<OrderSnapshot[]> {
  const { rows } = await sql<OrderSnapshot>`
    select id, external_order_number as "externalOrderNumber", reference, ordered_on as "orderedOn", currency, locale,
      email, allow_partial_delivery as "allowPartialDelivery", on_hold as "onHold", metadata,
      order_type_id as "orderTypeId", delivery_address_id as "deliveryAddressId",
      billing_address_id as "billingAddressId", pick_up_point_id as "pickUpPointId",
      preferred_shipping_method_id as "preferredShippingMethodId", raw
    from fulfilment.orders where client = ${client} order by id`.execute(db);
  return rows;
}

/** All return items of one client in order of id. For small databases: the demo and the tests. */
export async function readReturnItems(db: Database, client: string): Promise<ReturnItemSnapshot[]> {
  const { rows } = await sql<ReturnItemSnapshot>`
    select id, sku, quantity, condition, processed_on as "processedOn", processed_in as "processedIn",
      restock_in as "restockIn", ${utcText('restock_on')} as "restockOn", comment, redeliver,
      external_order_number as "externalOrderNumber", order_id as "orderId", order_item_id as "orderItemId",
      product_id as "productId", return_id as "returnId",
      return_merchandise_authorization_item_id as "returnMerchandiseAuthorizationItemId",
      return_reason_id as "returnReasonId", shipment_item_id as "shipmentItemId", raw
    from fulfilment.return_items where client = ${client} order by id`.execute(db);
  return rows;
}

/** All inbounds of one client in order of id. For small databases: the demo and the tests. */
export async function readInbounds(db: Database, client: string): Promise<InboundSnapshot[]> {
  const { rows } = await sql<InboundSnapshot>`
    select b.id, b.reference, b.status, b.received_in as "receivedIn", ${utcText('b.created_on')} as "createdOn",
      ${utcText('b.checking_on')} as "checkingOn", ${utcText('b.completed_on')} as "completedOn",
      b.inbound_packing_slip_id as "inboundPackingSlipId", b.raw,
      coalesce(i.items, '[]'::json) as items
    from fulfilment.inbounds b
    left join lateral (
      select json_agg(json_build_object('id', i.id, 'sku', i.sku, 'quantity', i.quantity, 'lotNumber', i.lot_number,
        'expirationDate', i.expiration_date, 'productId', i.product_id,
        'inboundPackingSlipItemId', i.inbound_packing_slip_item_id, 'raw', i.raw)
        order by i.id) as items
      from fulfilment.inbound_items i where i.client = b.client and i.inbound_id = b.id
    ) i on true
    where b.client = ${client} order by b.id`.execute(db);
  return rows;
}

/** How many rows each table of the ERP's side holds. */
export async function countRows(db: Database): Promise<Record<string, number>> {
  const { rows } = await sql<Record<string, number>>`
    select (select count(*) from fulfilment.orders) as orders,
      (select count(*) from fulfilment.shipments) as shipments,
      (select count(*) from fulfilment.shipment_items) as shipment_items,
      (select count(*) from fulfilment.return_items) as return_items,
      (select count(*) from fulfilment.inbounds) as inbounds,
      (select count(*) from fulfilment.inbound_items) as inbound_items,
      (select count(*) from fulfilment.changes) as changes,
      (select count(*) from sync.quarantine) as quarantine`.execute(db);
  return rows[0] ?? {};
}

/** A line of a parcel with the order it is for. */
export interface ShippedLine {
  readonly externalOrderNumber: string | null;
  readonly status: string | null;
  readonly warehouseCode: string | null;
  readonly quantity: number | null;
  readonly sku: string | null;
  readonly changedAt: Date;
}

/** What changed last, as a person would want to read it. */
export async function latestLines(db: Database, limit: number): Promise<ShippedLine[]> {
  const { rows } = await sql<ShippedLine>`
    select s.external_order_number as "externalOrderNumber", s.status, s.warehouse_code as "warehouseCode",
      i.quantity, i.sku, s.changed_at as "changedAt"
    from fulfilment.shipments s
    join fulfilment.shipment_items i on i.client = s.client and i.shipment_id = s.id
    where s.external_order_number is not null
    order by s.changed_at desc, s.id desc, i.id limit ${limit}`.execute(db);
  return rows;
}
