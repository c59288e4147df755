import { z } from 'zod';
import { readDateTime } from '../../core/time.ts';
import { idSchema, toMany, toOne } from './jsonapi.ts';
import { count, date, flag, metadata, readable, relations, text } from './v3-members.ts';

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
  relationships: relations({ orderItem: toOne, product: toOne }),
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
    relationships: relations({ order: toOne, orderType: toOne, shippingMethod: toOne, shipmentItems: toMany }),
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

/** inboundItem (interface.md, v3 inbound). */
export const inboundItemSchema = z.looseObject({
  id: idSchema,
  type: z.literal('inboundItem'),
  attributes: z.looseObject({ quantity: count, sku: text, lotNumber: text, expirationDate: date }),
  relationships: relations({ product: toOne, inboundPackingSlipItem: toOne }),
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
    relationships: relations({ inboundPackingSlip: toOne }),
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
    relationships: relations({ inboundPackingSlipItems: toMany, inbound: toOne }),
  });
}
export type InboundPackingSlip = z.infer<ReturnType<typeof inboundPackingSlipSchema>>;
