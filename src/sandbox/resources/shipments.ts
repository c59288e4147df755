import { z } from 'zod';
import { toFractions } from '../store/client-store.ts';
import { type Shipment, type ShipmentItem, shipmentStatuses } from '../store/model.ts';
import type { Zone } from '../zone.ts';
import {
  date,
  documentSchema,
  linkMany,
  linkOne,
  localDateTime,
  pageSchema,
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
export const shipmentDocument = documentSchema(shipmentSchema, shipmentItemSchema);
export const shipmentPage = pageSchema(shipmentSchema, shipmentItemSchema);

/**
 * Returns the resource of a shipment (docs/interface.md, 10.1 Fields). Its times are in the zone of its warehouses and
 * do not name that zone.
 */
export function toShipmentResource(zone: Zone, shipment: Shipment): ResourceObject {
  const { readyToPickOn, later } = toFractions(shipment);
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
      order: linkOne('order', shipment.orderId),
      orderType: linkOne('orderType', shipment.orderTypeId),
      shippingMethod: linkOne('shippingMethod', shipment.shippingMethodId),
      shipmentItems: linkMany(
        'shipmentItem',
        shipment.items.map(({ id }) => id),
      ),
    },
  };
}

/** Returns the resource of a shipment item (docs/interface.md, 10.2 Shipment items). */
export function toShipmentItemResource(item: ShipmentItem): ResourceObject {
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
    relationships: { orderItem: linkOne('orderItem', item.orderItemId), product: linkOne('product', item.productId) },
  };
}
