import { z } from 'zod';

const toOne = z
  .looseObject({ data: z.looseObject({ id: z.number() }).nullable() })
  .transform((relationship) => relationship.data?.id ?? null);
const text = z.string().nullable();
/** The resource untouched, beside what is read out of it: the tables keep it as `raw`. */
const withRaw = <T extends z.ZodType>(schema: T) =>
  z.unknown().transform((raw) => ({ raw, value: schema.parse(raw) as z.output<T> }));

export const itemSchema = withRaw(
  z.looseObject({
    id: z.number(),
    attributes: z.looseObject({
      sku: z.string(),
      quantity: z.number(),
      lotNumber: text,
      expirationDate: text,
      serialNumbers: z.array(z.string()),
    }),
    relationships: z.looseObject({ orderItem: toOne, product: toOne }),
  }),
);
const shipmentSchema = withRaw(
  z.looseObject({
    id: z.number(),
    attributes: z.looseObject({ status: z.string(), warehouseCode: z.string(), returnLabel: text }),
    relationships: z.looseObject({ order: toOne, orderType: toOne, shippingMethod: toOne }),
  }),
);
const orderSchema = withRaw(
  z.looseObject({
    id: z.number(),
    attributes: z.object({
      externalOrderNumber: text,
      reference: text,
      orderedOn: text,
      currency: text,
      locale: text,
      email: text,
      allowPartialDelivery: z.boolean(),
      onHold: z.boolean(),
      metadata: z.unknown(),
    }),
    relationships: z.looseObject({
      orderType: toOne,
      deliveryAddress: toOne,
      billingAddress: toOne,
      pickUpPoint: toOne,
      preferredShippingMethod: toOne,
    }),
  }),
);
const returnItemSchema = withRaw(
  z.looseObject({
    id: z.number(),
    attributes: z.object({
      sku: text,
      quantity: z.number(),
      condition: text,
      processedOn: text,
      processedIn: text,
      restockIn: text,
      comment: text,
      redeliver: z.boolean(),
      externalOrderNumber: text,
    }),
    relationships: z.looseObject({
      order: toOne,
      orderItem: toOne,
      product: toOne,
      return: toOne,
      returnMerchandiseAuthorizationItem: toOne,
      returnReason: toOne,
      shipmentItem: toOne,
    }),
  }),
);
const inboundSchema = withRaw(
  z.looseObject({
    id: z.number(),
    attributes: z.object({
      reference: text,
      status: text,
      receivedIn: text,
      createdOn: text,
      checkingOn: text,
      completedOn: text,
    }),
    relationships: z.looseObject({ inboundPackingSlip: toOne }),
  }),
);
const inboundItemSchema = withRaw(
  z.looseObject({
    id: z.number(),
    attributes: z.object({ sku: text, quantity: z.number(), lotNumber: text, expirationDate: text }),
    relationships: z.looseObject({ product: toOne, inboundPackingSlipItem: toOne }),
  }),
);
/** What `/_sandbox/state` answers, as far as tables are compared with it (docs/sandbox.md, Controls). */
export const stateSchema = z.object({
  clients: z.array(
    z.object({
      client: z.string(),
      orders: z.array(z.object({ resource: orderSchema })),
      inbounds: z.array(z.object({ resource: inboundSchema, items: z.array(inboundItemSchema) })),
      returnItems: z.array(
        z.object({ visible: z.boolean(), resource: returnItemSchema, instants: z.object({ restockOn: text }) }),
      ),
      shipments: z.array(
        z.object({
          visible: z.boolean(),
          resource: shipmentSchema,
          items: z.array(itemSchema),
          instants: z.object({ readyToPickOn: text, readyToShipOn: text, shippedOn: text }),
        }),
      ),
    }),
  ),
});
/** One client's part. */
export type ClientState = z.infer<typeof stateSchema>['clients'][number];
