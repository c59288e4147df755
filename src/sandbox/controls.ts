/** The controls of the sandbox: time, the business of a client, faults, switches and state. */

import type { FastifyContextConfig, FastifyInstance, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { faultSchema, matchesOperation } from './faults.ts';
import { operations } from './operations/all.ts';
import type { Resource } from './operations/resource.ts';
import { inboundResource, slipResource } from './operations/v3-goods.ts';
import { orderResource } from './operations/v3-orders.ts';
import { authorizationResource, returnItemResource } from './operations/v3-returns.ts';
import { shipmentResource } from './operations/v3-shipments.ts';
import type { WorldOptions } from './options.ts';
import { badParameter, requireFound } from './refusal.ts';
import { finishReturn } from './robot/returns.ts';
import { finishOrder } from './robot/shipments.ts';
import { orderMembers, placeRequestedOrder, seedMembers, seedShipments } from './robot/shop.ts';
import { announceReturn } from './rules/announcements.ts';
import { addHouseNumber, checkOrderNumber } from './rules/orders.ts';
import type { Client } from './store/client.ts';
import { type Members, shipmentStatuses } from './store/model.ts';
import type { StoredRow } from './store/sorted-rows.ts';
import type { World } from './world.ts';
import { writeInstant } from './zone.ts';

const maxAdvanceSeconds = 400 * 86_400;

/**
 * Adds the controls `/_sandbox/*`. They need no token: anybody who can reach the port can use them.
 */
export function addControlRoutes(
  app: FastifyInstance,
  world: World,
  config: FastifyContextConfig,
): void {
  const add: AddControl = (method, path, run) =>
    app.route({
      method,
      url: `/_sandbox/${path}`,
      config,
      handler: async (request) => {
        const answer = run(request);
        if (method !== 'GET') world.changes++;
        return answer;
      },
    });

  for (const [path, { members, run }] of Object.entries(clientControls)) {
    const schema = z.strictObject({ client: z.string(), ...members });
    add('POST', path, ({ body }) => {
      const { client, ...wanted } = schema.parse(body);
      return run(world.requireClient(client), wanted as never, world.clock.nowMs());
    });
  }

  addWorldControls(world, add);
  addFaultControls(world, add);
  addReports(world, add);
}

type AddControl = (
  method: 'GET' | 'POST' | 'PUT' | 'DELETE',
  path: string,
  run: (request: FastifyRequest) => unknown,
) => unknown;

interface ClientControl {
  readonly members: z.ZodRawShape;
  readonly run: (client: Client, wanted: never, nowMs: number) => unknown;
}

/** Declares a control of one client, which the member `client` of the body names. */
const control = <T extends z.ZodRawShape>(
  members: T,
  run: (client: Client, wanted: z.output<z.ZodObject<T>>, nowMs: number) => unknown,
): ClientControl => ({ members, run });

const requireOrder = ({ orderByNumber }: Client, number: string) =>
  requireFound(orderByNumber.get(number), 'externalOrderNumber is no order of this client');

const editMembers = {
  shipmentIds: z.array(z.int()).min(1),
  status: z.enum(shipmentStatuses).optional(),
  returnLabel: z.string().nullable().optional(),
  itemQuantity: z.int().min(0).optional(),
};

const clientControls: Readonly<Record<string, ClientControl>> = {
  seed: control(seedMembers, (client, wanted, nowMs) => {
    seedShipments(client, wanted, nowMs);
    const { name, shipments, orders } = client;
    return { client: name, shipments: shipments.size, orders: orders.size };
  }),
  order: control(orderMembers, (client, wanted, nowMs) => {
    const { id: orderId, externalOrderNumber } = placeRequestedOrder(client, wanted, nowMs);
    return { orderId, externalOrderNumber };
  }),
  ship: control({ externalOrderNumber: z.string() }, (client, { externalOrderNumber }, nowMs) => {
    const order = requireOrder(client, externalOrderNumber);
    const shipped = finishOrder(client, order, nowMs);
    return { externalOrderNumber, shipped, shipmentIds: order.shipmentIds };
  }),
  return: control(
    { shipmentId: z.int(), quantity: z.int().min(1).max(1_000_000).optional() },
    (client, { shipmentId, quantity }, nowMs) => {
      const known = client.shipments.get(shipmentId);
      const { items } = requireFound(known, 'shipmentId is no shipment of this client');
      const reasonId = client.lists.returnReasons[0]?.id ?? 0;
      const lines = items.map((item) => ({
        shipmentItemId: item.id,
        quantity: quantity ?? item.quantity,
        reasonId,
        externalReference: null,
        metadata: {},
      }));

      const draft = { shipmentId, externalReference: null, comments: null, metadata: {}, lines };
      return { authorizationId: announceReturn(client, draft, nowMs).id, shipmentId };
    },
  ),
  'return/process': control({ authorizationId: z.int() }, (client, { authorizationId }, nowMs) => {
    const authorization = requireFound(
      client.authorizations.get(authorizationId),
      'authorizationId is no announced return of this client',
    );
    const items = finishReturn(client, authorization, nowMs);
    return { authorizationId, returnItemIds: items.map(({ id }) => id) };
  }),
  edit: control(editMembers, (client, wanted, nowMs) => {
    const { shipmentIds, status, returnLabel, itemQuantity } = wanted;
    const shipments = shipmentIds.map((id) =>
      requireFound(client.shipments.get(id), `shipmentIds ${id} is no shipment of this client`),
    );
    for (const shipment of shipments) {
      if (status !== undefined) client.setStatus(shipment, status, nowMs);
      if (returnLabel !== undefined) shipment.returnLabel = returnLabel;
      for (const item of shipment.items) item.quantity = itemQuantity ?? item.quantity;
    }
    return { edited: shipments.length };
  }),
  rename: control(
    { orderId: z.int(), externalOrderNumber: z.string().min(1) },
    (client, { orderId, externalOrderNumber }) => {
      const known = client.orders.get(orderId);
      const order = requireFound(known, 'orderId is no order of this client');
      checkOrderNumber(client, externalOrderNumber, order);
      client.changeOrder(order, { externalOrderNumber });
      return { orderId, externalOrderNumber };
    },
  ),
  'house-number': control(
    { externalOrderNumber: z.string(), houseNumber: z.string().min(1) },
    (client, { externalOrderNumber, houseNumber }, nowMs) => {
      const order = requireOrder(client, externalOrderNumber);
      addHouseNumber(client, order, houseNumber, nowMs);
      return { externalOrderNumber, notValid: order.notValid };
    },
  ),
  stock: control(
    { sku: z.string(), warehouse: z.string(), quantity: z.int().min(0) },
    (client, { sku, warehouse, quantity }, nowMs) => {
      const stock = client.products.get(sku)?.stock;
      if (stock === undefined || !Object.hasOwn(stock, warehouse))
        throw badParameter('sku', 'has no stock in that warehouse');
      stock[warehouse] = quantity;
      client.retryWaitingOrders(nowMs);
      return { sku, stock };
    },
  ),
};

const resetSchema = z
  .strictObject({
    seed: z.int(),
    startMs: z.int(),
    speed: z.number().min(0),
    ordersPerDay: z.number().min(0).max(1_000_000),
    lateChanges: z.boolean(),
  })
  .partial()
  .nullish();
const advanceSchema = z.strictObject({ seconds: z.number().positive().max(maxAdvanceSeconds) });

function addWorldControls(world: World, add: AddControl): void {
  add('POST', 'reset', ({ body }) => {
    const given = resetSchema.parse(body) ?? {};
    world.reset(given as Partial<WorldOptions>);
    return given;
  });
  add('POST', 'advance', ({ body }) => {
    world.clock.advance(advanceSchema.parse(body).seconds * 1_000);
    for (const name of world.clientNames) world.requireClient(name);
    return { now: new Date(world.clock.nowMs()).toISOString() };
  });
  add('GET', 'switches', () => world.switches);
  add('PUT', 'switches', ({ body }) => {
    world.setSwitches(body);
    return world.switches;
  });
}

function addFaultControls(world: World, add: AddControl): void {
  add('GET', 'faults', () => world.faults.rules);
  add('POST', 'faults', ({ body }) => {
    const given = z.array(faultSchema).parse([body].flat());
    const names = operations.map(({ name }) => name);
    for (const { operation } of given)
      if (!names.some((name) => matchesOperation(operation, name))) {
        const known = names.join(', ');
        throw badParameter('operation', `no operation matches ${operation}; known are ${known}`);
      }

    for (const fault of given) world.faults.add(fault);
    return world.faults.rules;
  });
  add('DELETE', 'faults', () => world.faults.remove());
  add('POST', 'faults/remove', ({ body }) => {
    const { number } = z.strictObject({ number: z.int() }).parse(body);
    return world.faults.remove(number);
  });
}

function addReports(world: World, add: AddControl): void {
  const { log, findings } = world;
  const place = z.coerce.number().int();
  add('GET', 'requests', ({ query }) =>
    log.since(z.object({ after: place.default(0) }).parse(query).after),
  );
  add('GET', 'requests/:place', ({ params, protocol, host }) =>
    log.readExchange(z.object({ place }).parse(params).place, `${protocol}://${host}`),
  );
  add('GET', 'findings', () => ({ findings: findings.list(), beyondLimit: findings.beyondLimit }));
  add('GET', 'state', ({ query }) => readState(world, query));
}

/** Returns the entries of rows: their resources, all parts of these, and more members. */
const list = <Row extends StoredRow>(
  client: Client,
  rows: Iterable<Row>,
  resource: Resource<Row>,
  readMore: (row: Row) => Members = () => ({}),
): Members[] =>
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
const listNames = Object.keys(lists) as ListName[];
const stateSchema = z.strictObject({
  lists: z
    .string()
    .transform((text) => text.split(','))
    .pipe(z.array(z.enum(listNames)))
    .default(listNames),
});

/** Returns the rows of all clients, also those that no list shows. */
function readState(world: World, query: unknown): Members {
  const { lists: wanted } = stateSchema.parse(query);
  const nowMs = world.clock.nowMs();
  const clients = world.clientNames.map((name) => {
    const client = world.requireClient(name);
    const read = wanted.map((list) => [list, lists[list](client, nowMs)]);
    return { client: name, ...Object.fromEntries(read) };
  });
  return { now: new Date(nowMs).toISOString(), clients };
}
