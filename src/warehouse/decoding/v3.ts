import { z } from 'zod';
import { readDateTime } from '../../core/time.ts';
import { idSchema, toMany, toOne } from './jsonapi.ts';
import { convertedText, count, date, flag, metadata, relations, text } from './v3-members.ts';

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
