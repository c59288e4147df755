import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import type { Database } from '../../erp/connect.ts';
import {
  type InboundSnapshot,
  type OrderSnapshot,
  type ReturnItemSnapshot,
  readInbounds,
  readOrders,
  readReturnItems,
  readShipments,
  type ShipmentSnapshot,
} from '../../erp/snapshot.ts';

const toOne = z
  .looseObject({ data: z.looseObject({ id: z.number() }).nullable() })
  .transform((relationship) => relationship.data?.id ?? null);
const text = z.string().nullable();
/** The resource untouched, beside what is read out of it: the tables keep it as `raw`. */
const withRaw = <T extends z.ZodType>(schema: T) =>
  z.unknown().transform((raw) => ({ raw, value: schema.parse(raw) as z.output<T> }));

const itemSchema = withRaw(
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
const stateSchema = z.object({
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
type ClientState = z.infer<typeof stateSchema>['clients'][number];

function expectedOrders({ orders }: ClientState): OrderSnapshot[] {
  return orders.map(({ resource: { raw, value } }) => ({
    id: value.id,
    ...value.attributes,
    orderTypeId: value.relationships.orderType,
    deliveryAddressId: value.relationships.deliveryAddress,
    billingAddressId: value.relationships.billingAddress,
    pickUpPointId: value.relationships.pickUpPoint,
    preferredShippingMethodId: value.relationships.preferredShippingMethod,
    raw,
  }));
}

function expectedShipments({ orders, shipments }: ClientState): ShipmentSnapshot[] {
  const numbers = new Map(orders.map(({ resource: { value } }) => [value.id, value.attributes.externalOrderNumber]));
  return shipments
    .filter(({ visible }) => visible)
    .map(({ resource: { raw, value }, items, instants }) => {
      const { status, warehouseCode, returnLabel } = value.attributes;
      const { order: orderId, orderType: orderTypeId, shippingMethod: shippingMethodId } = value.relationships;
      const externalOrderNumber = (orderId === null ? null : numbers.get(orderId)) ?? null;
      const own = { id: value.id, status, warehouseCode, returnLabel, ...instants, raw, externalOrderNumber };
      const lines = items.map(expectedItem).sort((left, right) => left.id - right.id);
      return { ...own, orderId, orderTypeId, shippingMethodId, items: lines };
    });
}

function expectedReturnItems({ returnItems }: ClientState): ReturnItemSnapshot[] {
  return returnItems
    .filter(({ visible }) => visible)
    .map(({ resource: { raw, value }, instants }) => {
      const { order, orderItem, product, return: parcel, returnReason, shipmentItem } = value.relationships;
      return {
        id: value.id,
        ...value.attributes,
        ...instants,
        orderId: order,
        orderItemId: orderItem,
        productId: product,
        returnId: parcel,
        returnMerchandiseAuthorizationItemId: value.relationships.returnMerchandiseAuthorizationItem,
        returnReasonId: returnReason,
        shipmentItemId: shipmentItem,
        raw,
      };
    });
}

/** Inbound times end in Z, with milliseconds: the tables have microseconds. */
const toMicroseconds = (instant: string | null) => instant?.replace(/Z$/, '000Z') ?? null;

function expectedInbounds({ inbounds }: ClientState): InboundSnapshot[] {
  return inbounds.map(({ resource: { raw, value }, items }) => ({
    id: value.id,
    ...value.attributes,
    createdOn: toMicroseconds(value.attributes.createdOn),
    checkingOn: toMicroseconds(value.attributes.checkingOn),
    completedOn: toMicroseconds(value.attributes.completedOn),
    inboundPackingSlipId: value.relationships.inboundPackingSlip,
    raw,
    items: items
      .map((item) => ({
        id: item.value.id,
        ...item.value.attributes,
        productId: item.value.relationships.product,
        inboundPackingSlipItemId: item.value.relationships.inboundPackingSlipItem,
        raw: item.raw,
      }))
      .sort((left, right) => left.id - right.id),
  }));
}

function expectedItem({ raw, value }: z.infer<typeof itemSchema>): ShipmentSnapshot['items'][number] {
  const { sku, quantity, lotNumber, expirationDate, serialNumbers } = value.attributes;
  const { orderItem: orderItemId, product: productId } = value.relationships;
  return { id: value.id, sku, quantity, lotNumber, expirationDate, serialNumbers, orderItemId, productId, raw };
}

/** Differences of two sets of rows by id, in words that name the members. */
function compareRows<T extends { readonly id: number }>(
  what: string,
  expected: readonly T[],
  actual: readonly T[],
): string[] {
  const stored = new Map(actual.map((row) => [row.id, row]));
  const differences: string[] = [];
  for (const row of expected) {
    const found = stored.get(row.id);
    stored.delete(row.id);
    if (found === undefined) differences.push(`${what} ${row.id} is missing`);
    else if (!isDeepStrictEqual(found, row)) {
      const members = (Object.keys(row) as (keyof T)[]).filter((key) => !isDeepStrictEqual(found[key], row[key]));
      differences.push(`${what} ${row.id} differs in ${members.join(', ')}`);
    }
  }
  return [...differences, ...[...stored.keys()].map((id) => `${what} ${id} is not in the sandbox`)];
}

/** Compares what one stream has brought with what the sandbox holds, in words. */
type Comparison = (db: Database, state: ClientState) => Promise<string[]>;

const comparisons = {
  orders: async (db, state) =>
    compareRows(`${state.client}: order`, expectedOrders(state), await readOrders(db, state.client)),
  shipments: async (db, state) =>
    compareRows(`${state.client}: shipment`, expectedShipments(state), await readShipments(db, state.client)),
  inbounds: async (db, state) =>
    compareRows(`${state.client}: inbound`, expectedInbounds(state), await readInbounds(db, state.client)),
  'return-items': async (db, state) =>
    compareRows(`${state.client}: return item`, expectedReturnItems(state), await readReturnItems(db, state.client)),
} satisfies Record<string, Comparison>;
export type ComparedStream = keyof typeof comparisons;

/**
 * Compares the tables of some streams, or of all, with what the sandbox holds by its own account, row by row, all columns
 * that come from it. Returns what differs, in words; empty where nothing does.
 */
export async function compareWithSandbox(
  db: Database,
  sandbox: URL,
  streams = Object.keys(comparisons) as ComparedStream[],
): Promise<string[]> {
  const answer = await fetch(new URL('/_sandbox/state', sandbox));
  const { clients } = stateSchema.parse(await answer.json());
  const differences = clients.flatMap((state) => streams.map((stream) => comparisons[stream](db, state)));
  return (await Promise.all(differences)).flat();
}
