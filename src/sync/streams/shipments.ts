import { declareChildTable, declareMirrorTable, type TableRow } from '../../erp/mirror/mirror-tables.ts';
import type { OpenRow } from '../../erp/pull/open-rows.ts';
import { requestParcelReads } from '../../erp/resources/parcel-reads.ts';
import { findShipmentsWithOrder, healOrderNumbers } from '../../erp/resources/shipment-rows.ts';
import { findChildren } from '../../warehouse/decoding/included.ts';
import { decodeWith, type Resource } from '../../warehouse/decoding/jsonapi.ts';
import { type Shipment, type ShipmentItem, shipmentItemSchema, shipmentSchema } from '../../warehouse/decoding/v3.ts';
import { walkWhole } from '../paging/poll.ts';
import { cachePerZone, type DecodedResource, decodeChildren, withoutIncluded } from '../reading/decode.ts';
import type { Stream } from '../reading/stream.ts';
import type { PullContext } from '../run/pull-context.ts';
import { repairOrderNumbers } from './order-numbers.ts';

/** The states in which a shipment may still change (docs/interface.md, 10.3 States). */
const openStatuses = ['READY_TO_PICK', 'READY_TO_SORT', 'READY_TO_SHIP', 'ERROR'];
/** Number of days that the list reaches back (docs/interface.md, 5.1 Values). */
const listDays = 90;
const maxOrderIds = 100;
const maxOrderIdCharacters = 4_000;

/** Shipments with their items. */
export const shipments: Stream = {
  name: 'shipments',
  list: 'v3.shipments.list',
  get: 'v3.shipments.get',
  include: ['shipmentItems'],
  rescan: {
    filter: null,
    dayColumn: 'ready_to_pick_on',
    dates: ['ready_to_pick_on', 'ready_to_ship_on', 'shipped_on'],
    moved: ['ready_to_pick_on', 'ready_to_ship_on', 'shipped_on'],
    horizonDays: listDays,
    recentDays: null,
    sorted: true,
  },
  tables: {
    parent: declareMirrorTable('shipments', { external_order_number: 'order_id' }),
    children: [declareChildTable('shipment_items', 'shipment_id')],
  },
  passes: {
    new: true,
    // Also shows those with a low id that became visible late.
    open: { statuses: openStatuses, closed: 'SHIPPED' },
    settle: readByOrders,
    rereads: { until: 'answered', absent: 'unlisted' },
    last: repairOrderNumbers,
  },
  healDerived: ({ trx, client }, ids) => healOrderNumbers(trx, client, ids),
  afterChanges: async ({ trx, client }, changes) => {
    const ids = changes.map(({ id }) => id).filter((id) => id !== null);
    await requestParcelReads(trx, client, ids);
    return [];
  },
  afterRefetch: ({ trx, client }, id) => requestParcelReads(trx, client, [id]),
  mayBeGone: ({ trx, client }, ids) => findShipmentsWithOrder(trx, client, ids),
  afterRescan: repairOrderNumbers,
  decoder: cachePerZone((zone) => {
    const schema = shipmentSchema(zone);
    return (resource, onTop): DecodedResource => {
      const shipment = decodeWith(schema, resource);
      if ('problem' in shipment) return shipment;
      const listed = shipment.value.relationships.shipmentItems;
      const { resources, complete } = findChildren(resource, 'shipmentItem', listed, onTop);
      const items = decodeChildren('shipmentItem', resources, shipmentItemSchema, (item, raw) =>
        toItemRow(shipment.value.id, item, raw),
      );
      if ('problem' in items) return items;
      const lines = { table: 'shipment_items', rows: items.children, complete };
      const family = { parent: toShipmentRow(shipment.value, resource), children: [lines] };
      return complete ? { family } : { family, warning: 'a shipment came without all of its items' };
    };
  }),
};

function toShipmentRow(
  { id, attributes, relationships }: Shipment,
  resource: Resource,
): TableRow<'shipments', 'external_order_number'> {
  return {
    id,
    raw: withoutIncluded(resource),
    status: attributes.status,
    ready_to_pick_on: attributes.readyToPickOn,
    ready_to_ship_on: attributes.readyToShipOn,
    shipped_on: attributes.shippedOn,
    warehouse_code: attributes.warehouseCode,
    return_label: attributes.returnLabel,
    order_id: relationships.order,
    order_type_id: relationships.orderType,
    shipping_method_id: relationships.shippingMethod,
  };
}

function toItemRow(
  shipmentId: number,
  { id, attributes, relationships }: ShipmentItem,
  resource: Resource,
): TableRow<'shipment_items'> {
  return {
    id,
    raw: resource,
    shipment_id: shipmentId,
    sku: attributes.sku,
    quantity: attributes.quantity,
    lot_number: attributes.lotNumber,
    expiration_date: attributes.expirationDate,
    serial_numbers: attributes.serialNumbers,
    order_item_id: relationships.orderItem,
    product_id: relationships.product,
  };
}

/** Reads shipments by the orders that they belong to. */
async function readByOrders(
  context: PullContext,
  stream: Stream,
  rows: readonly OpenRow[],
): Promise<ReadonlySet<number>> {
  const found = new Set<number>();
  for (const orderIds of batchOrderIds(rows)) {
    const { ids } = await walkWhole(context, stream, null, { 'filter[orderId][in]': orderIds });
    for (const id of ids) found.add(id);
  }
  return found;
}

/** Divides the order ids of the rows into batches that fit into a URL. */
function batchOrderIds(candidates: readonly OpenRow[]): number[][] {
  const batches: number[][] = [];
  let characters = Number.POSITIVE_INFINITY;
  for (const id of new Set(candidates.map(({ orderId }) => orderId).filter((orderId) => orderId !== null))) {
    const batch = batches.at(-1);
    characters += String(id).length + 1;
    if (batch === undefined || batch.length >= maxOrderIds || characters > maxOrderIdCharacters) {
      batches.push([id]);
      characters = String(id).length;
    } else batch.push(id);
  }
  return batches;
}
