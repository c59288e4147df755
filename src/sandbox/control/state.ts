import { z } from 'zod';
import type { Resource } from '../operations/resource.ts';
import { inboundResource, slipResource } from '../operations/v3-goods.ts';
import { orderResource } from '../operations/v3-orders.ts';
import { authorizationResource, returnItemResource } from '../operations/v3-returns.ts';
import { shipmentResource } from '../operations/v3-shipments.ts';
import type { Client } from '../store/client.ts';
import type { World } from '../world.ts';
import { writeInstant } from '../zone.ts';

type Entry = Readonly<Record<string, unknown>>;

/** Returns the entries of rows: their resources, all parts of these, and more members. */
const list = <Row>(
  client: Client,
  rows: Iterable<Row>,
  resource: Resource<Row>,
  readMore: (row: Row) => Entry = () => ({}),
): Entry[] =>
  [...rows].map((row) => ({
    resource: resource.render(row, client),
    [resource.isInsideOnly ? 'included' : 'items']: resource.renderIncluded(
      row,
      client,
      resource.includeNames,
    ),
    ...readMore(row),
  }));

/** The lists of `/_sandbox/state`. */
const lists = {
  products: ({ products }: Client) => [...products.values()].map((product) => ({ ...product })),
  orders: (client: Client) =>
    list(client, client.orders, orderResource, ({ notValid, attachments, items }) => ({
      notValid,
      attachments,
      /** Fulfilled quantity of each item, in the order of the items. */
      fulfilled: items.map(({ fulfilled }) => fulfilled),
    })),
  shipments: (client: Client, nowMs: number) =>
    list(client, client.shipments, shipmentResource, ({ id, tracks, ...shipment }) => ({
      tracks,
      visible: shipment.visibleFromMs <= nowMs,
      /** What the times mean that a shipment shows without a zone. */
      instants: {
        readyToPickOn: writeInstant(shipment.readyToPickOnMs, id),
        readyToShipOn: writeInstant(shipment.readyToShipOnMs, id),
        shippedOn: writeInstant(shipment.shippedOnMs, id),
      },
    })),
  returnMerchandiseAuthorizations: (client: Client) =>
    list(client, client.authorizations, authorizationResource),
  returnItems: (client: Client) =>
    list(client, client.returnItems, returnItemResource, ({ id, processedOn, restockOnMs }) => ({
      visible: processedOn !== null,
      instants: { restockOn: writeInstant(restockOnMs, id) },
    })),
  inbounds: (client: Client) => list(client, client.inbounds, inboundResource),
  inboundPackingSlips: (client: Client) => list(client, client.slips, slipResource),
};

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
    const read = wanted.map((list) => [list, lists[list](client, nowMs)]);
    return { client: name, ...Object.fromEntries(read) };
  });
  return { now: new Date(nowMs).toISOString(), clients };
}
