import { z } from 'zod';
import { idSchema, toMany, toOne } from './jsonapi.ts';
import { count, date, flag, metadata, relations, text } from './v3-members.ts';

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
