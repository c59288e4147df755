import { z } from 'zod';
import { fractionsOf } from '../store/client-store.ts';
import { type Shipment, type ShipmentItem, shipmentStatuses } from '../store/model.ts';
import type { Zone } from '../times.ts';
import {
  date,
  documentOf,
  localDateTime,
  many,
  one,
  pageOf,
  type ResourceObject,
  resourceSchema,
  text,
  toMany,
  toOne,
} from './jsonapi.ts';

const shipmentItemSchema = resourceSchema(
  'shipmentItem',
  {
    sku: z.string(),
    quantity: z.int(),
    lotNumber: text,
    expirationDate: date.nullable(),
    serialNumbers: z.array(z.string()),
  },
  { orderItem: toOne('orderItem'), product: toOne('product') },
);
const shipmentSchema = resourceSchema(
  'shipment',
  {
    status: z.enum(shipmentStatuses),
    readyToPickOn: localDateTime,
    readyToShipOn: localDateTime.nullable(),
    shippedOn: localDateTime.nullable(),
    warehouseCode: z.string(),
    returnLabel: text,
  },
  {
    order: toOne('order'),
    orderType: toOne('orderType'),
    shippingMethod: toOne('shippingMethod'),
    shipmentItems: toMany('shipmentItem'),
  },
  shipmentItemSchema,
);
export const shipmentDocument = documentOf(shipmentSchema, shipmentItemSchema);
export const shipmentPage = pageOf(shipmentSchema, shipmentItemSchema);

/** interface.md, v3 shipment: times in the zone of its warehouses, without saying so. */
export function shipmentResource(zone: Zone, shipment: Shipment): ResourceObject {
  const { readyToPickOn, later } = fractionsOf(shipment);
  return {
    id: shipment.id,
    type: 'shipment',
    attributes: {
      status: shipment.status,
      readyToPickOn: zone.writeLocal(shipment.readyToPickOnMs, readyToPickOn),
      readyToShipOn: zone.writeLocal(shipment.readyToShipOnMs, later),
      shippedOn: zone.writeLocal(shipment.shippedOnMs, later),
      warehouseCode: shipment.warehouseCode,
      returnLabel: shipment.returnLabel,
    },
    relationships: {
      order: one('order', shipment.orderId),
      orderType: one('orderType', shipment.orderTypeId),
      shippingMethod: one('shippingMethod', shipment.shippingMethodId),
      shipmentItems: many(
        'shipmentItem',
        shipment.items.map(({ id }) => id),
      ),
    },
  };
}

/** interface.md, v3 shipmentItem. */
export function shipmentItemResource(item: ShipmentItem): ResourceObject {
  return {
    id: item.id,
    type: 'shipmentItem',
    attributes: {
      sku: item.sku,
      quantity: item.quantity,
      lotNumber: item.lotNumber,
      expirationDate: item.expirationDate,
      serialNumbers: item.serialNumbers,
    },
    relationships: { orderItem: one('orderItem', item.orderItemId), product: one('product', item.productId) },
  };
}
