import { z } from 'zod';
import type { AddressLines, Order, OrderItem } from '../store/model.ts';
import type { RenderedResource } from './paging.ts';
import { include } from './parameters.ts';
import {
  date,
  decimal,
  documentSchema,
  linkMany,
  linkOne,
  linkOneOrNone,
  metadata,
  pageSchema,
  type ResourceObject,
  resourceSchema,
  text,
  toMany,
  toOne,
  toOneOrNone,
} from './v3-document.ts';

export const orderItemSchema = resourceSchema(
  'orderItem',
  {
    sku: z.string(),
    quantity: z.int(),
    fulfillFrom: text,
    price: z.number().nullable(),
    vat: decimal.nullable(),
    name: text,
    channelIdentifier: text,
    metadata,
  },
  { order: toOne('order'), product: toOne('product') },
);
const addressSchema = resourceSchema(
  'address',
  {
    firstName: text,
    lastName: text,
    prefix: text,
    street1: text,
    postcode: text,
    houseNumber: text,
    houseNumberExtension: text,
    city: text,
    countryCode: text,
  },
  null,
);
/** docs/interface.md does not show the fields of a pick-up point, so all members that were sent are shown. */
const pickUpPointSchema = z.strictObject({ id: z.int(), type: z.literal('pickUpPoint'), attributes: metadata });

export const orderSchema = resourceSchema(
  'order',
  {
    externalOrderNumber: z.string(),
    reference: text,
    orderedOn: date,
    consumerReference: text,
    promotionCode: text,
    currency: z.string(),
    locale: z.string(),
    email: z.string(),
    phoneNumber: text,
    vatNumber: text,
    fulfillFrom: text,
    preferredShippingDate: date.nullable(),
    allowPartialDelivery: z.boolean(),
    onHold: z.boolean(),
    metadata,
    channelIdentifier: text,
  },
  {
    orderType: toOne('orderType'),
    orderItems: toMany('orderItem'),
    deliveryAddress: toOne('address'),
    billingAddress: toOne('address'),
    pickUpPoint: toOneOrNone('pickUpPoint'),
    preferredShippingMethod: toOneOrNone('shippingMethod'),
  },
  z.union([orderItemSchema, addressSchema, pickUpPointSchema]),
);
export const orderDocument = documentSchema(orderSchema);
export const orderPage = pageSchema(orderSchema);

/** Returns the resource of an order (docs/interface.md, 7.1 Fields). */
export function toOrderResource(order: Order): ResourceObject {
  const { id, items, pickUpPoint } = order;
  return {
    id,
    type: 'order',
    attributes: {
      externalOrderNumber: order.externalOrderNumber,
      reference: order.reference,
      orderedOn: order.orderedOn,
      consumerReference: order.consumerReference,
      promotionCode: order.promotionCode,
      currency: order.currency,
      locale: order.locale,
      email: order.email,
      phoneNumber: order.phoneNumber,
      vatNumber: order.vatNumber,
      fulfillFrom: order.fulfillFrom,
      preferredShippingDate: order.preferredShippingDate,
      allowPartialDelivery: order.allowPartialDelivery,
      onHold: order.onHold,
      metadata: order.metadata,
      channelIdentifier: order.channelIdentifier,
    },
    relationships: {
      orderType: linkOne('orderType', order.orderTypeId),
      orderItems: linkMany(
        'orderItem',
        items.map((item) => item.id),
      ),
      deliveryAddress: linkOne('address', order.deliveryAddressId),
      billingAddress: linkOne('address', order.billingAddressId),
      pickUpPoint: linkOneOrNone('pickUpPoint', pickUpPoint?.id ?? null),
      preferredShippingMethod: linkOneOrNone('shippingMethod', order.shippingMethodId),
    },
  };
}

/** The values of `include` for orders, with the resources that each includes (docs/interface.md, 7.5 Filters). */
export const orderIncludes = {
  orderItems: (order: Order) => order.items.map((item) => toOrderItemResource(order, item)),
  deliveryAddress: (order: Order) => [toAddressResource(order.deliveryAddressId, order.deliveryAddress)],
  billingAddress: (order: Order) => [toAddressResource(order.billingAddressId, order.billingAddress)],
  pickUpPoint: ({ pickUpPoint }: Order) =>
    pickUpPoint === null ? [] : [{ id: pickUpPoint.id, type: 'pickUpPoint', attributes: pickUpPoint.attributes }],
} as const satisfies Record<string, (order: Order) => ResourceObject[]>;
type OrderInclude = keyof typeof orderIncludes;
export const orderIncludeNames = Object.keys(orderIncludes) as [OrderInclude, ...OrderInclude[]];
/** The parameter `include` of operations on orders. */
export const orderInclude = { include: include(...orderIncludeNames) } as const;

/** Renders an order with the resources that a request includes. */
export function renderOrder(order: Order, includes: readonly OrderInclude[] = []): RenderedResource {
  return { resource: toOrderResource(order), included: includes.flatMap((name) => orderIncludes[name](order)) };
}

/** Returns the resource of an order item (docs/interface.md, 8.1 Fields). */
export function toOrderItemResource(order: Order, item: OrderItem): ResourceObject {
  return {
    id: item.id,
    type: 'orderItem',
    attributes: {
      sku: item.sku,
      quantity: item.quantity,
      fulfillFrom: item.fulfillFrom,
      price: item.price,
      vat: item.vat,
      name: item.name,
      channelIdentifier: item.channelIdentifier,
      metadata: item.metadata,
    },
    relationships: { order: linkOne('order', order.id), product: linkOne('product', item.productId) },
  };
}

function toAddressResource(id: number, lines: AddressLines): ResourceObject {
  return { id, type: 'address', attributes: { ...lines } };
}
