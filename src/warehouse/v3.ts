import { z } from 'zod';
import { wholeIfKept } from '../core/json.ts';
import { readDate, readDateTime } from '../core/time.ts';
import { idSchema, toMany, toOne } from './jsonapi.ts';

const text = z
  .string()
  .nullish()
  .transform((value) => value ?? null);
const flag = z
  .boolean()
  .nullish()
  .transform((value) => value ?? null);
/** A whole number that fits Postgres' integer. */
const count = z
  .preprocess(wholeIfKept, z.int().min(-2_147_483_648).max(2_147_483_647).nullish())
  .transform((value) => value ?? null);
const date = readable(readDate);
/** An object with members of the client's choice, kept as it is. */
const metadata = z
  .record(z.string(), z.unknown())
  .nullish()
  .transform((value) => value ?? null);

/** A text that `read` turns into what Postgres takes; its RangeError becomes the reason of a quarantine row. */
function readable(read: (value: string) => string) {
  return z
    .string()
    .nullish()
    .transform((value, context) => {
      if (value === null || value === undefined) return null;
      try {
        return read(value);
      } catch (error) {
        if (!(error instanceof RangeError)) throw error;
        context.addIssue({ code: 'custom', message: error.message });
        return z.NEVER;
      }
    });
}

/** shipmentItem (interface.md, v3 shipment). */
export const shipmentItemSchema = z.looseObject({
  id: idSchema,
  type: z.literal('shipmentItem'),
  attributes: z.looseObject({
    sku: text,
    quantity: count,
    lotNumber: text,
    expirationDate: date,
    serialNumbers: z
      .array(z.string())
      .nullish()
      .transform((value) => value ?? []),
  }),
  relationships: z.looseObject({ orderItem: toOne, product: toOne }).prefault({}),
});
export type ShipmentItem = z.infer<typeof shipmentItemSchema>;

/** shipment (interface.md, v3 shipment); its zone-less times are read in `zone`. */
export function shipmentSchema(zone: string) {
  const dateTime = readable((value) => readDateTime(value, zone));
  return z.looseObject({
    id: idSchema,
    type: z.literal('shipment'),
    attributes: z.looseObject({
      status: text,
      readyToPickOn: dateTime,
      readyToShipOn: dateTime,
      shippedOn: dateTime,
      warehouseCode: text,
      returnLabel: text,
    }),
    relationships: z
      .looseObject({ order: toOne, orderType: toOne, shippingMethod: toOne, shipmentItems: toMany })
      .prefault({}),
  });
}
export type Shipment = z.infer<ReturnType<typeof shipmentSchema>>;

/** returnItem (interface.md, v3 returnItem); `restockOn` is read in `zone` where it names none. */
export function returnItemSchema(zone: string) {
  const dateTime = readable((value) => readDateTime(value, zone));
  return z.looseObject({
    id: idSchema,
    type: z.literal('returnItem'),
    attributes: z.looseObject({
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
    relationships: z
      .looseObject({
        order: toOne,
        orderItem: toOne,
        product: toOne,
        return: toOne,
        returnMerchandiseAuthorizationItem: toOne,
        returnReason: toOne,
        shipmentItem: toOne,
      })
      .prefault({}),
  });
}
export type ReturnItem = z.infer<ReturnType<typeof returnItemSchema>>;

/** inboundItem (interface.md, v3 inbound). */
export const inboundItemSchema = z.looseObject({
  id: idSchema,
  type: z.literal('inboundItem'),
  attributes: z.looseObject({ quantity: count, sku: text, lotNumber: text, expirationDate: date }),
  relationships: z.looseObject({ product: toOne, inboundPackingSlipItem: toOne }).prefault({}),
});
export type InboundItem = z.infer<typeof inboundItemSchema>;

/** inbound (interface.md, v3 inbound); its times end in Z, and are read in `zone` where they do not. */
export function inboundSchema(zone: string) {
  const dateTime = readable((value) => readDateTime(value, zone));
  return z.looseObject({
    id: idSchema,
    type: z.literal('inbound'),
    attributes: z.looseObject({
      reference: text,
      status: text,
      receivedIn: text,
      createdOn: dateTime,
      checkingOn: dateTime,
      completedOn: dateTime,
    }),
    relationships: z.looseObject({ inboundPackingSlip: toOne }).prefault({}),
  });
}
export type Inbound = z.infer<ReturnType<typeof inboundSchema>>;

/** inboundPackingSlipItem (interface.md, v3 inboundPackingSlip). */
export const inboundPackingSlipItemSchema = z.looseObject({
  id: idSchema,
  type: z.literal('inboundPackingSlipItem'),
  attributes: z.looseObject({ sku: text, quantity: count, received: count }),
});
export type InboundPackingSlipItem = z.infer<typeof inboundPackingSlipItemSchema>;

/** inboundPackingSlip (interface.md, v3 inboundPackingSlip); its times are read in `zone` where they name none. */
export function inboundPackingSlipSchema(zone: string) {
  const dateTime = readable((value) => readDateTime(value, zone));
  return z.looseObject({
    id: idSchema,
    type: z.literal('inboundPackingSlip'),
    attributes: z.looseObject({
      expectedIn: text,
      expectedOn: date,
      receivedOn: dateTime,
      completedOn: dateTime,
      reference: text,
      status: text,
      comments: text,
      metadata,
    }),
    relationships: z.looseObject({ inboundPackingSlipItems: toMany, inbound: toOne }).prefault({}),
  });
}
export type InboundPackingSlip = z.infer<ReturnType<typeof inboundPackingSlipSchema>>;

/**
 * A decimal as the digits it was written with, number or text (interface.md, v3 orderItem: one response shows the rate as
 * a string). Exponents that no price has are refused, as Postgres cannot hold them all.
 */
const decimal = z
  .preprocess(
    (value) => (JSON.isRawJSON(value) ? value.rawJSON : typeof value === 'number' ? String(value) : value),
    z
      .string()
      .max(100)
      .regex(/^-?\d+(\.\d+)?([eE][+-]?\d{1,2})?$/, 'is no decimal number')
      .nullish(),
  )
  .transform((value) => value ?? null);

/** orderItem (interface.md, v3 orderItem). */
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
  relationships: z.looseObject({ product: toOne }).prefault({}),
});
export type OrderItem = z.infer<typeof orderItemSchema>;

/** address (interface.md, v3 address). */
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

/** order (interface.md, v3 order). */
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
  relationships: z
    .looseObject({
      orderType: toOne,
      orderItems: toMany,
      deliveryAddress: toOne,
      billingAddress: toOne,
      pickUpPoint: toOne,
      preferredShippingMethod: toOne,
    })
    .prefault({}),
});
export type Order = z.infer<typeof orderSchema>;
