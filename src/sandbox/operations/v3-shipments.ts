import { z } from 'zod';
import { listPackageNumbers, toTrackingUrl } from '../robot/fulfil.ts';
import { type ClientStore, toFractions } from '../store/client-store.ts';
import { type Filter, SortedRows } from '../store/listing.ts';
import { type Order, type Shipment, type ShipmentItem, shipmentStatuses } from '../store/model.ts';
import { ids, markExtra, texts, uniqueList } from './operation.ts';
import { date, localDateTime, text } from './v3-document.ts';
import {
  byDays,
  byKeys,
  byValues,
  defineGet,
  defineList,
  defineResource,
  include,
  many,
  one,
} from './v3-resource.ts';

/** docs/interface.md, 10.2 Shipment items. */
export const shipmentItemResource = defineResource<ShipmentItem>('shipmentItem', {
  attributes: {
    sku: z.string(),
    quantity: z.int(),
    lotNumber: text,
    expirationDate: date.nullable(),
    serialNumbers: z.array(z.string()),
  },
  relationships: {
    orderItem: one('orderItem', ({ orderItemId }) => orderItemId),
    product: one('product', ({ productId }) => productId),
  },
});

const laterTime = (read: (row: Shipment) => number | null) => ({
  schema: localDateTime.nullable(),
  read: (row: Shipment, { zone }: ClientStore) =>
    zone.writeLocal(read(row), toFractions(row).later),
});

/** docs/interface.md, 10.1 Fields. Times are in the zone of the warehouses and do not name it. */
export const shipmentResource = defineResource<Shipment>('shipment', {
  attributes: { status: z.enum(shipmentStatuses), warehouseCode: z.string(), returnLabel: text },
  computed: {
    readyToPickOn: {
      schema: localDateTime,
      read: (row, { zone }) => zone.writeLocal(row.readyToPickOnMs, toFractions(row).readyToPickOn),
    },
    readyToShipOn: laterTime(({ readyToShipOnMs }) => readyToShipOnMs),
    shippedOn: laterTime(({ shippedOnMs }) => shippedOnMs),
    // Of the first package.
    tracking: {
      schema: markExtra(z.strictObject({ url: z.string() }).nullable()).optional(),
      read: (row, { showsExtras }) => (showsExtras ? readTracking(row) : undefined),
    },
  },
  relationships: {
    order: one('order', ({ orderId }) => orderId),
    orderType: one('orderType', ({ orderTypeId }) => orderTypeId),
    shippingMethod: one('shippingMethod', ({ shippingMethodId }) => shippingMethodId),
    shipmentItems: many('shipmentItem', ({ items }) => items),
  },
  includes: { shipmentItems: include(shipmentItemResource, ({ items }) => items) },
});

function readTracking(shipment: Shipment): { readonly url: string } | null {
  const [packageNumber] = listPackageNumbers(shipment);
  return packageNumber === undefined ? null : { url: toTrackingUrl(packageNumber) };
}

const findById = (id: number, { orders }: ClientStore) => orders.get(id) ?? [];
const findByNumber = (number: string, { orderByNumber }: ClientStore) =>
  orderByNumber.get(number) ?? [];
const findByReference = (reference: string, { listedOrders }: ClientStore) => [
  ...listedOrders.findRows('reference', reference),
];

/** The operations on shipments (docs/interface.md, 10.4 Operations). */
export const shipmentOperations = [
  defineList(shipmentResource, {
    summary: 'Shipments no older than 90 days, by ascending id',
    listing: ({ listedShipments }) => listedShipments,
    filters: [
      byKeys('status', uniqueList(z.enum(shipmentStatuses))),
      byDays('shippedOn'),
      byKeys('orderType', ids),
      byOrders('filter[reference][in]', texts, findByReference),
      byOrders('filter[orderId]', ids, findById),
      byOrders('filter[orderId][in]', ids, findById),
      byOrders('filter[externalOrderNumber]', texts, findByNumber),
      byOrders('filter[externalOrderNumber][in]', texts, findByNumber),
    ],
  }),
  defineGet(shipmentResource, {
    summary: 'One shipment, of any age',
    find: ({ id, store, nowMs }) => {
      const known = store.shipments.get(id);
      return known !== undefined && known.visibleFromMs <= nowMs ? known : undefined;
    },
  }),
];

function byOrders<Value>(
  parameter: string,
  schema: z.ZodType<readonly Value[]>,
  findOrders: (value: Value, store: ClientStore) => Order | readonly Order[],
) {
  return byValues(parameter, schema, (values, store): Filter<Shipment> => {
    const orders = values.flatMap((value) => findOrders(value, store));
    const wanted = new Set(orders.map(({ id }) => id));
    const listed = orders
      .flatMap((order) => store.listShipments(order))
      .filter(({ id }) => store.listedShipments.all.get(id));
    return { sources: [SortedRows.fromRows(listed)], test: ({ orderId }) => wanted.has(orderId) };
  });
}
