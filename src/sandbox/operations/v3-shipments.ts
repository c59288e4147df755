import { z } from 'zod';
import { listPackageNumbers, toTrackingUrl } from '../robot/shipments.ts';
import type { Client } from '../store/client.ts';
import { type Shipment, type ShipmentItem, shipmentStatuses } from '../store/model.ts';
import { ids, markExtra, texts, uniqueList } from './operation.ts';
import {
  byDays,
  byKeys,
  defineGet,
  defineList,
  defineResource,
  include,
  localDateTime,
  many,
  ownLinks,
  productLink,
  text,
} from './resource.ts';

/** docs/interface.md, 10.2 Shipment items. */
const shipmentItemResource = defineResource<ShipmentItem>('shipmentItem', {
  attributes: {
    sku: z.string(),
    quantity: z.int(),
    lotNumber: text,
    expirationDate: z.iso.date().nullable(),
    serialNumbers: z.array(z.string()),
  },
  relationships: { ...ownLinks('orderItem'), ...productLink },
});

const laterTime = (name: 'readyToShipOnMs' | 'shippedOnMs') =>
  [
    localDateTime.nullable(),
    (row: Shipment, { zone }: Client) => zone.writeLocal(row[name], row.id),
  ] as const;

/** docs/interface.md, 10.1 Fields. Times are in the zone of the warehouses and do not name it. */
export const shipmentResource = defineResource<Shipment>('shipment', {
  attributes: {
    status: z.enum(shipmentStatuses),
    warehouseCode: z.string(),
    returnLabel: text,
    readyToPickOn: [
      localDateTime,
      ({ id, readyToPickOnMs }, { zone }) => zone.writeLocal(readyToPickOnMs, id),
    ],
    readyToShipOn: laterTime('readyToShipOnMs'),
    shippedOn: laterTime('shippedOnMs'),
    // Of the first package.
    tracking: [
      markExtra(z.strictObject({ url: z.string() }).nullable()).optional(),
      (row, { options }) => (options.showsExtras ? readTracking(row) : undefined),
    ],
  },
  relationships: {
    ...ownLinks('order', 'orderType', 'shippingMethod'),
    shipmentItems: many('shipmentItem', ({ items }) => items),
  },
  includes: { shipmentItems: include(shipmentItemResource, ({ items }) => items) },
});

function readTracking(shipment: Shipment): { readonly url: string } | null {
  const [packageNumber] = listPackageNumbers(shipment);
  return packageNumber === undefined ? null : { url: toTrackingUrl(packageNumber) };
}

const readNumber = ({ orderId }: Shipment, { orders }: Client) =>
  orders.get(orderId)?.externalOrderNumber ?? null;
const readReference = ({ orderId }: Shipment, { orders }: Client) =>
  orders.get(orderId)?.reference ?? null;

/** The operations on shipments (docs/interface.md, 10.4 Operations). */
export const shipmentOperations = [
  defineList(shipmentResource, 'Shipments no older than 90 days, by ascending id', {
    rows: ({ shipments }) => shipments,
    isListed: (client, nowMs) => client.createShipmentTest(nowMs),
    filters: [
      byKeys('status', uniqueList(z.enum(shipmentStatuses)), ({ status }) => status),
      byDays('shippedOn', ({ shippedOnMs }) => shippedOnMs),
      byKeys('orderType', ids, ({ orderTypeId }) => orderTypeId),
      byKeys('reference', texts, readReference),
      byKeys('orderId', ids, ({ orderId }) => orderId),
      byKeys('orderId', ids, ({ orderId }) => orderId, 'filter[orderId]'),
      byKeys('externalOrderNumber', texts, readNumber),
      byKeys('externalOrderNumber', texts, readNumber, 'filter[externalOrderNumber]'),
    ],
  }),
  defineGet(shipmentResource, 'One shipment, of any age', (client, id, nowMs) =>
    client.findShipment(id, nowMs),
  ),
];
