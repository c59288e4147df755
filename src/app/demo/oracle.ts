import { isDeepStrictEqual } from 'node:util';
import type { z } from 'zod';
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
import { type ClientState, type itemSchema, stateSchema } from './sandbox-state.ts';

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
