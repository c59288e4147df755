import { z } from 'zod';
import { readDateTime } from '../../core/time.ts';
import { idSchema, toMany, toOne } from './jsonapi.ts';
import { convertedText, count, date, flag, metadata, relations, text } from './members.ts';

/** shipmentItem (docs/interface.md, 10.2 Shipment items). */
export const shipmentItemSchema = z.object({
  id: idSchema,
  type: z.literal('shipmentItem'),
  attributes: z.object({
    sku: text,
    quantity: count,
    lotNumber: text,
    expirationDate: date,
    serialNumbers: z
      .array(z.string())
      .nullish()
      .transform((value) => value ?? []),
  }),
  relationships: relations({ orderItem: toOne, product: toOne }),
});
export type ShipmentItem = z.infer<typeof shipmentItemSchema>;

/** shipment (docs/interface.md, 10.1 Fields). Its times have no zone designator and are read in `zone`. */
export function shipmentSchema(zone: string) {
  const dateTime = convertedText((value) => readDateTime(value, zone));
  return z.object({
    id: idSchema,
    type: z.literal('shipment'),
    attributes: z.object({
      status: text,
      readyToPickOn: dateTime,
      readyToShipOn: dateTime,
      shippedOn: dateTime,
      warehouseCode: text,
      returnLabel: text,
    }),
    relationships: relations({ order: toOne, orderType: toOne, shippingMethod: toOne, shipmentItems: toMany }),
  });
}
export type Shipment = z.infer<ReturnType<typeof shipmentSchema>>;

/** returnItem (docs/interface.md, 12.1 Fields). `restockOn` is read in `zone` if it has no zone designator. */
export function returnItemSchema(zone: string) {
  const dateTime = convertedText((value) => readDateTime(value, zone));
  return z.object({
    id: idSchema,
    type: z.literal('returnItem'),
    attributes: z.object({
      sku: text,
      quantity: count,
      condition: text,
      processedOn: date,
      processedIn: text,
      restockIn: text,
      restockOn: dateTime,
      comment: text,
      redeliver: flag,
      externalOrderNumber: text,
    }),
    relationships: relations({
      order: toOne,
      orderItem: toOne,
      product: toOne,
      return: toOne,
      returnMerchandiseAuthorizationItem: toOne,
      returnReason: toOne,
      shipmentItem: toOne,
    }),
  });
}
export type ReturnItem = z.infer<ReturnType<typeof returnItemSchema>>;

/** inboundItem (docs/interface.md, 13.2 Inbound items). */
export const inboundItemSchema = z.object({
  id: idSchema,
  type: z.literal('inboundItem'),
  attributes: z.object({ quantity: count, sku: text, lotNumber: text, expirationDate: date }),
  relationships: relations({ product: toOne, inboundPackingSlipItem: toOne }),
});
export type InboundItem = z.infer<typeof inboundItemSchema>;

/** inbound (docs/interface.md, 13.1 Fields). Its times end in Z; a time without a zone designator is read in `zone`. */
export function inboundSchema(zone: string) {
  const dateTime = convertedText((value) => readDateTime(value, zone));
  return z.object({
    id: idSchema,
    type: z.literal('inbound'),
    attributes: z.object({
      reference: text,
      status: text,
      receivedIn: text,
      createdOn: dateTime,
      checkingOn: dateTime,
      completedOn: dateTime,
    }),
    relationships: relations({ inboundPackingSlip: toOne }),
  });
}
export type Inbound = z.infer<ReturnType<typeof inboundSchema>>;

/** inboundPackingSlipItem (docs/interface.md, 14.2 Items). */
export const inboundPackingSlipItemSchema = z.object({
  id: idSchema,
  type: z.literal('inboundPackingSlipItem'),
  attributes: z.object({ sku: text, quantity: count, received: count }),
});
export type InboundPackingSlipItem = z.infer<typeof inboundPackingSlipItemSchema>;

/** inboundPackingSlip (docs/interface.md, 14.1 Fields). Times without a zone designator are read in `zone`. */
export function inboundPackingSlipSchema(zone: string) {
  const dateTime = convertedText((value) => readDateTime(value, zone));
  return z.object({
    id: idSchema,
    type: z.literal('inboundPackingSlip'),
    attributes: z.object({
      expectedIn: text,
      expectedOn: date,
      receivedOn: dateTime,
      completedOn: dateTime,
      reference: text,
      status: text,
      comments: text,
      metadata,
    }),
    relationships: relations({ inboundPackingSlipItems: toMany, inbound: toOne }),
  });
}
export type InboundPackingSlip = z.infer<ReturnType<typeof inboundPackingSlipSchema>>;

/**
 * A decimal with its original digits. It may come as a number or as a string (docs/interface.md, 8.1 Fields). Exponents
 * of three or more digits are refused, because Postgres cannot store all of them.
 */
const decimal = z
  .preprocess(
    (value) => (JSON.isRawJSON(value) ? value.rawJSON : typeof value === 'number' ? String(value) : value),
    z
      .string()
      .max(100)
      .regex(/^-?\d+(\.\d+)?([eE][+-]?\d{1,2})?$/, 'is not a decimal number')
      .nullish(),
  )
  .transform((value) => value ?? null);

/** orderItem (docs/interface.md, 8.1 Fields). */
export const orderItemSchema = z.looseObject({
  id: idSchema,
  type: z.literal('orderItem'),
  attributes: z.looseObject({
    sku: text,
    quantity: count,
    fulfillFrom: text,
    price: decimal,
    vat: decimal,
    name: text,
    channelIdentifier: text,
    metadata,
  }),
  relationships: relations({ product: toOne }),
});
export type OrderItem = z.infer<typeof orderItemSchema>;

/** address (docs/interface.md, 7.2 Addresses). */
export const addressSchema = z.looseObject({
  id: idSchema,
  type: z.literal('address'),
  attributes: z.looseObject({
    firstName: text,
    lastName: text,
    prefix: text,
    street1: text,
    postcode: text,
    houseNumber: text,
    houseNumberExtension: text,
    city: text,
    countryCode: text,
  }),
});
export type Address = z.infer<typeof addressSchema>;

/** A relationship to a resource that may have no id (docs/interface.md, 7.6 Create). */
const toOneWithOptionalId = z
  .looseObject({ data: z.looseObject({ id: idSchema.nullish() }).nullish() })
  .nullish()
  .transform((relationship) => (relationship?.data ? { id: relationship.data.id ?? null } : null));

/** order (docs/interface.md, 7.1 Fields). */
export const orderSchema = z.looseObject({
  id: idSchema,
  type: z.literal('order'),
  attributes: z.looseObject({
    externalOrderNumber: text,
    reference: text,
    orderedOn: date,
    consumerReference: text,
    promotionCode: text,
    currency: text,
    locale: text,
    email: text,
    phoneNumber: text,
    vatNumber: text,
    fulfillFrom: text,
    preferredShippingDate: date,
    allowPartialDelivery: flag,
    onHold: flag,
    metadata,
    channelIdentifier: text,
  }),
  relationships: relations({
    orderType: toOne,
    orderItems: toMany,
    deliveryAddress: toOne,
    billingAddress: toOne,
    pickUpPoint: toOneWithOptionalId,
    preferredShippingMethod: toOne,
  }),
});
export type Order = z.infer<typeof orderSchema>;

/** returnMerchandiseAuthorizationItem (docs/interface.md, 11.2 Items). */
export const authorizationItemSchema = z.looseObject({
  id: idSchema,
  type: z.literal('returnMerchandiseAuthorizationItem'),
  attributes: z.looseObject({ externalReference: text, sku: text, quantity: count, reasonCode: text, metadata }),
  relationships: relations({ shipmentItem: toOne, product: toOne, returnReason: toOne, returnItem: toOne }),
});
export type AuthorizationItem = z.infer<typeof authorizationItemSchema>;

/** returnMerchandiseAuthorization (docs/interface.md, 11.1 Fields). */
export const authorizationSchema = z.looseObject({
  id: idSchema,
  type: z.literal('returnMerchandiseAuthorization'),
  attributes: z.looseObject({
    externalReference: text,
    comments: text,
    metadata,
    status: text,
    createdOn: date,
    modifiedOn: date,
  }),
  relationships: relations({ shipment: toOne, returnMerchandiseAuthorizationItems: toMany }),
});
export type Authorization = z.infer<typeof authorizationSchema>;
