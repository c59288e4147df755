import type { ClientStore, StoredAddress, StoredItem, StoredOrder, StoredOrderItem, StoredShipment } from './store.ts';
import { writeLocal } from './times.ts';

/** A v3 resource object (interface.md, Conventions). */
export interface ResourceObject {
  readonly id: number;
  readonly type: string;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly relationships?: Readonly<Record<string, unknown>>;
  readonly included?: readonly ResourceObject[];
}

const one = (type: string, id: number) => ({ data: { id, type } });
const many = (type: string, ids: readonly number[]) => ({ data: ids.map((id) => ({ id, type })) });

/** A shipment as the service shows it: times in the zone of its warehouses, without saying so. */
export function shipmentResource(store: ClientStore, shipment: StoredShipment): ResourceObject {
  return {
    id: shipment.id,
    type: 'shipment',
    attributes: {
      status: shipment.status,
      readyToPickOn: writeLocal(shipment.readyToPickOn, store.zone),
      readyToShipOn: writeLocal(shipment.readyToShipOn, store.zone),
      shippedOn: writeLocal(shipment.shippedOn, store.zone),
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

export function shipmentItemResource(item: StoredItem): ResourceObject {
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

export function orderResource(order: StoredOrder): ResourceObject {
  return {
    id: order.id,
    type: 'order',
    attributes: {
      externalOrderNumber: order.externalOrderNumber,
      reference: order.reference,
      orderedOn: order.orderedOn,
      consumerReference: null,
      promotionCode: null,
      currency: 'EUR',
      locale: order.locale,
      email: order.email,
      phoneNumber: null,
      vatNumber: null,
      fulfillFrom: null,
      preferredShippingDate: null,
      allowPartialDelivery: order.items.length > 1,
      onHold: false,
      metadata: { extra1: `shop ${order.id % 3}` },
      channelIdentifier: null,
    },
    relationships: {
      orderType: one('orderType', order.orderTypeId),
      orderItems: many(
        'orderItem',
        order.items.map(({ id }) => id),
      ),
      deliveryAddress: one('address', order.deliveryAddress.id),
      billingAddress: one('address', order.billingAddress.id),
      pickUpPoint: order.pickUpPoint === null ? { data: null } : one('pickUpPoint', order.pickUpPoint.id),
      preferredShippingMethod: one('shippingMethod', order.shippingMethodId),
    },
  };
}

/** What may be asked of an order by `include` (interface.md, v3 orders). */
export const orderIncludes = {
  orderItems: (order: StoredOrder) => order.items.map((item) => orderItemResource(order, item)),
  deliveryAddress: (order: StoredOrder) => [addressResource(order.deliveryAddress)],
  billingAddress: (order: StoredOrder) => [addressResource(order.billingAddress)],
  pickUpPoint: ({ pickUpPoint }: StoredOrder) =>
    pickUpPoint === null ? [] : [{ id: pickUpPoint.id, type: 'pickUpPoint', attributes: { name: pickUpPoint.name } }],
} as const satisfies Record<string, (order: StoredOrder) => ResourceObject[]>;

function orderItemResource(order: StoredOrder, item: StoredOrderItem): ResourceObject {
  return {
    id: item.id,
    type: 'orderItem',
    attributes: {
      sku: item.sku,
      quantity: item.quantity,
      fulfillFrom: null,
      price: item.price,
      vat: item.vat,
      name: item.name,
      channelIdentifier: null,
      metadata: {},
    },
    relationships: { order: one('order', order.id), product: one('product', item.productId) },
  };
}

function addressResource({ id, ...attributes }: StoredAddress): ResourceObject {
  return { id, type: 'address', attributes: { ...attributes, prefix: null, houseNumberExtension: null } };
}
