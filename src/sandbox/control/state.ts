import { z } from 'zod';
import { toRichEntry } from '../operations/dialect.ts';
import type { Resource } from '../operations/resource.ts';
import {
  inboundItemResource,
  inboundResource,
  slipItemResource,
  slipResource,
} from '../operations/v3-goods.ts';
import { orderResource } from '../operations/v3-orders.ts';
import {
  authorizationItemResource,
  authorizationResource,
  returnItemResource,
} from '../operations/v3-returns.ts';
import { shipmentItemResource, shipmentResource } from '../operations/v3-shipments.ts';
import { type Client, toFractions } from '../store/client.ts';
import type { Order, ReturnItem, Shipment } from '../store/model.ts';
import type { World } from '../world.ts';
import { toFraction, writeInstant } from '../zone.ts';

type Entry = Readonly<Record<string, unknown>>;

/** Returns the entries of rows: their resources, and more members. */
const list = <Row>(
  client: Client,
  rows: Iterable<Row>,
  resource: Resource<Row>,
  readMore: (row: Row) => Entry,
): Entry[] =>
  [...rows].map((row) => ({ resource: resource.render(row, client), ...readMore(row) }));

/** Returns the entries of rows with items. */
const listWithItems = <Row extends { readonly items: readonly Item[] }, Item>(
  client: Client,
  rows: Iterable<Row>,
  resource: Resource<Row>,
  itemResource: Resource<Item>,
): Entry[] =>
  list(client, rows, resource, ({ items }) => ({
    items: items.map((item) => itemResource.render(item, client)),
  }));

/** The lists of `/_sandbox/state`. */
const lists = {
  products: ({ products }: Client) => [...products.values()].map((product) => ({ ...product })),
  orders: (client: Client) =>
    list(client, client.orders, orderResource, (order: Order) => ({
      included: orderResource.renderIncluded(order, client, orderResource.includeNames),
      notValid: order.notValid,
      attachments: order.attachments,
      /** Fulfilled quantity of each item, in the order of the items. */
      fulfilled: order.items.map(({ fulfilled }) => fulfilled),
    })),
  shipments: (client: Client, nowMs: number) =>
    list(client, client.shipments, shipmentResource, (shipment: Shipment) => ({
      items: shipment.items.map((item) => shipmentItemResource.render(item, client)),
      tracks: shipment.tracks,
      visible: shipment.visibleFromMs <= nowMs,
      instants: listInstants(shipment),
    })),
  returnMerchandiseAuthorizations: (client: Client) =>
    listWithItems(client, client.authorizations, authorizationResource, authorizationItemResource),
  returnItems: (client: Client) =>
    list(client, client.returnItems, returnItemResource, (row: ReturnItem) => ({
      visible: row.processedOn !== null,
      instants: { restockOn: writeInstant(row.restockOnMs, toFraction(row.id, 0)) },
    })),
  inbounds: (client: Client) =>
    listWithItems(client, client.inbounds, inboundResource, inboundItemResource),
  inboundPackingSlips: (client: Client) =>
    listWithItems(client, client.slips, slipResource, slipItemResource),
};

/** Returns the UTC instants of the times that a shipment shows without a zone. */
function listInstants(shipment: Shipment): Entry {
  const { readyToPickOn, later } = toFractions(shipment);
  return {
    readyToPickOn: writeInstant(shipment.readyToPickOnMs, readyToPickOn),
    readyToShipOn: writeInstant(shipment.readyToShipOnMs, later),
    shippedOn: writeInstant(shipment.shippedOnMs, later),
  };
}

type ListName = keyof typeof lists;
const names = Object.keys(lists) as ListName[];
const querySchema = z.strictObject({
  lists: z
    .string()
    .transform((text) => text.split(','))
    .pipe(z.array(z.enum(names)))
    .default(names),
});

/** Returns the rows of all clients, also those that no list shows. */
export function readState(world: World, query: unknown): Entry {
  const { lists: wanted } = querySchema.parse(query);
  const nowMs = world.clock.nowMs();
  const clients = world.clientNames.map((name) => {
    const client = world.requireClient(name);
    const read = (list: ListName): readonly Entry[] => {
      const entries: readonly Entry[] = lists[list](client, nowMs);
      return world.switches.dialect === 'rich'
        ? entries.map((entry) => toRichEntry(entry, client))
        : entries;
    };
    return { client: name, ...Object.fromEntries(wanted.map((list) => [list, read(list)])) };
  });
  return { now: new Date(nowMs).toISOString(), clients };
}
