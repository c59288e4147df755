import { z } from 'zod';
import { listPackageNumbers, toTrackingUrl } from '../robot/tracking.ts';
import { type Client, toFractions } from '../store/client.ts';
import { SortedRows } from '../store/listing.ts';
import { type Order, type Shipment, type ShipmentItem, shipmentStatuses } from '../store/model.ts';
import { ids, markExtra, texts, uniqueList } from './operation.ts';
import {
  byDays,
  byKeys,
  byValues,
  defineGet,
  defineList,
  defineResource,
  include,
  localDateTime,
  many,
  one,
  text,
} from './resource.ts';

/** docs/interface.md, 10.2 Shipment items. */
export const shipmentItemResource = defineResource<ShipmentItem>('shipmentItem', {
  attributes: {
    sku: z.string(),
    quantity: z.int(),
    lotNumber: text,
    expirationDate: z.iso.date().nullable(),
    serialNumbers: z.array(z.string()),
  },
  relationships: {
    orderItem: one('orderItem', ({ orderItemId }) => orderItemId),
    product: one('product', ({ productId }) => productId),
  },
});

const laterTime = (read: (row: Shipment) => number | null) =>
  [
    localDateTime.nullable(),
    (row: Shipment, { zone }: Client) => zone.writeLocal(read(row), toFractions(row).later),
  ] as const;

/** docs/interface.md, 10.1 Fields. Times are in the zone of the warehouses and do not name it. */
export const shipmentResource = defineResource<Shipment>('shipment', {
  attributes: {
    status: z.enum(shipmentStatuses),
    warehouseCode: z.string(),
    returnLabel: text,
    readyToPickOn: [
      localDateTime,
      (row, { zone }) => zone.writeLocal(row.readyToPickOnMs, toFractions(row).readyToPickOn),
    ],
    readyToShipOn: laterTime(({ readyToShipOnMs }) => readyToShipOnMs),
    shippedOn: laterTime(({ shippedOnMs }) => shippedOnMs),
    // Of the first package.
    tracking: [
      markExtra(z.strictObject({ url: z.string() }).nullable()).optional(),
      (row, { options }) => (options.showsExtras ? readTracking(row) : undefined),
    ],
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

const findById = (id: number, { orders }: Client) => orders.get(id) ?? [];
const findByNumber = (number: string, { orderByNumber }: Client) => orderByNumber.get(number) ?? [];
const findByReference = (reference: string, { orders }: Client) => [
  ...orders.findRows('reference', reference),
];

/** The operations on shipments (docs/interface.md, 10.4 Operations). */
export const shipmentOperations = [
  defineList(
    shipmentResource,
    'Shipments no older than 90 days, by ascending id',
    ({ listedShipments }) => listedShipments,
    [
      byKeys('status', uniqueList(z.enum(shipmentStatuses))),
      byDays('shippedOn'),
      byKeys('orderType', ids),
      byOrders('filter[reference][in]', texts, findByReference),
      byOrders('filter[orderId]', ids, findById),
      byOrders('filter[orderId][in]', ids, findById),
      byOrders('filter[externalOrderNumber]', texts, findByNumber),
      byOrders('filter[externalOrderNumber][in]', texts, findByNumber),
    ],
  ),
  defineGet(shipmentResource, 'One shipment, of any age', ({ shipments }, id, nowMs) => {
    const known = shipments.get(id);
    return known !== undefined && known.visibleFromMs <= nowMs ? known : undefined;
  }),
];

/** Declares a filter for the shipments of the orders that its values name. */
function byOrders<Value>(
  parameter: string,
  schema: z.ZodType<readonly Value[]>,
  findOrders: (value: Value, client: Client) => Order | readonly Order[],
) {
  return byValues<Shipment, Value>(parameter, schema, (values, client) => {
    const orders = values.flatMap((value) => findOrders(value, client));
    const wanted = new Set(orders.map(({ id }) => id));
    const listed = orders
      .flatMap((order) => client.listShipments(order))
      .filter(({ id }) => client.listedShipments.get(id));
    return { sources: [new SortedRows(listed)], test: ({ orderId }) => wanted.has(orderId) };
  });
}
