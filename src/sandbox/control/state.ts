import { inboundItemResource, inboundResource, slipItemResource, slipResource } from '../resources/inbounds.ts';
import { orderIncludes, orderResource } from '../resources/orders.ts';
import { authorizationItemResource, authorizationResource, returnItemResource } from '../resources/returns.ts';
import { shipmentItemResource, shipmentResource } from '../resources/shipments.ts';
import { type ClientStore, fractionsOf } from '../store/client-store.ts';
import { fractionOf, writeInstant } from '../times.ts';

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
 * Returns what one client has, as resources, with each zone-less time as the instant it means.
 * @param lists the lists that are wanted: with 100,000 orders, each takes its time
 */
export function dump(
  store: ClientStore,
  nowMs: number,
  lists: readonly StateList[],
): Readonly<Record<string, unknown>> {
  const render: Readonly<Record<StateList, () => unknown>> = {
    products: () => [...store.products.values()].map(({ encodedImage: _, ...product }) => product),
    orders: () =>
      [...store.orders].map((order) => ({
        resource: orderResource(order),
        included: Object.values(orderIncludes).flatMap((render) => render(order)),
        notValid: order.notValid,
        attachments: order.attachments,
        /** By item, in their order. */
        fulfilled: order.items.map(({ fulfilled }) => fulfilled),
      })),
    shipments: () =>
      [...store.shipments].map((shipment) => {
        const { readyToPickOn, later } = fractionsOf(shipment);
        return {
          resource: shipmentResource(store.zone, shipment),
          items: shipment.items.map(shipmentItemResource),
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
        resource: authorizationResource(authorization),
        items: authorization.items.map(authorizationItemResource),
      })),
    returnItems: () =>
      [...store.returnItems].map((item) => ({
        resource: returnItemResource(store, item),
        visible: item.processedOn !== null,
        instants: { restockOn: writeInstant(item.restockOnMs, fractionOf(item.id, 0)) },
      })),
    inbounds: () =>
      [...store.inbounds].map((inbound) => ({
        resource: inboundResource(inbound),
        items: inbound.items.map(inboundItemResource),
      })),
    inboundPackingSlips: () =>
      [...store.slips].map((slip) => ({
        resource: slipResource(slip),
        items: slip.items.map(slipItemResource),
      })),
  };
  return { client: store.name, ...Object.fromEntries(lists.map((list) => [list, render[list]()])) };
}
