import { toRichEntry } from '../operations/v3-dialect.ts';
import {
  toInboundItemResource,
  toInboundResource,
  toSlipItemResource,
  toSlipResource,
} from '../operations/v3-goods.ts';
import { orderIncludes, toOrderResource } from '../operations/v3-order-resource.ts';
import {
  toAuthorizationItemResource,
  toAuthorizationResource,
  toReturnItemResource,
} from '../operations/v3-returns.ts';
import { toShipmentItemResource, toShipmentResource } from '../operations/v3-shipments.ts';
import type { Dialect } from '../options.ts';
import { type ClientStore, toFractions } from '../store/client-store.ts';
import { toFraction, writeInstant } from '../zone.ts';

export const stateLists = [
  'products',
  'orders',
  'shipments',
  'returnMerchandiseAuthorizations',
  'returnItems',
  'inbounds',
  'inboundPackingSlips',
] as const;
export type StateList = (typeof stateLists)[number];

/**
 * Returns the rows of a client as resources in a dialect. `instants` gives the UTC instant of each time that the resource shows
 * without a zone.
 * @param lists the wanted lists; with 100,000 orders each list takes noticeable time
 */
export function dumpClient(
  store: ClientStore,
  nowMs: number,
  lists: readonly StateList[],
  dialect: Dialect,
): Readonly<Record<string, unknown>> {
  const render: Readonly<Record<StateList, () => Record<string, unknown>[]>> = {
    products: () => [...store.products.values()].map(({ encodedImage: _, ...product }) => product),
    orders: () =>
      [...store.orders].map((order) => ({
        resource: toOrderResource(order),
        included: Object.values(orderIncludes).flatMap((render) => render(order)),
        notValid: order.notValid,
        attachments: order.attachments,
        /** Fulfilled quantity of each item, in the order of the items. */
        fulfilled: order.items.map(({ fulfilled }) => fulfilled),
      })),
    shipments: () =>
      [...store.shipments].map((shipment) => {
        const { readyToPickOn, later } = toFractions(shipment);
        return {
          resource: toShipmentResource(store.zone, shipment),
          items: shipment.items.map(toShipmentItemResource),
          tracks: shipment.tracks,
          visible: shipment.visibleFromMs <= nowMs,
          instants: {
            readyToPickOn: writeInstant(shipment.readyToPickOnMs, readyToPickOn),
            readyToShipOn: writeInstant(shipment.readyToShipOnMs, later),
            shippedOn: writeInstant(shipment.shippedOnMs, later),
          },
        };
      }),
    returnMerchandiseAuthorizations: () =>
      [...store.authorizations].map((authorization) => ({
        resource: toAuthorizationResource(authorization),
        items: authorization.items.map((item) => toAuthorizationItemResource(store, item)),
      })),
    returnItems: () =>
      [...store.returnItems].map((item) => ({
        resource: toReturnItemResource(store, item),
        visible: item.processedOn !== null,
        instants: { restockOn: writeInstant(item.restockOnMs, toFraction(item.id, 0)) },
      })),
    inbounds: () =>
      [...store.inbounds].map((inbound) => ({
        resource: toInboundResource(inbound),
        items: inbound.items.map(toInboundItemResource),
      })),
    inboundPackingSlips: () =>
      [...store.slips].map((slip) => ({
        resource: toSlipResource(slip),
        items: slip.items.map(toSlipItemResource),
      })),
  };
  const read = (list: StateList) =>
    dialect === 'plain' ? render[list]() : render[list]().map((entry) => toRichEntry(entry, store));
  return { client: store.name, ...Object.fromEntries(lists.map((list) => [list, read(list)])) };
}
