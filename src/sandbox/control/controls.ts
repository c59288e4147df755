/** The controls of the sandbox: time, the business of a client, faults, switches and state. */

import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { faultSchema, matchesOperation } from '../faults.ts';
import { operations } from '../operations/all.ts';
import { toRichEntry } from '../operations/v3-dialect.ts';
import {
  inboundItemResource,
  inboundResource,
  slipItemResource,
  slipResource,
} from '../operations/v3-goods.ts';
import { orderResource } from '../operations/v3-orders.ts';
import type { Resource } from '../operations/v3-resource.ts';
import {
  authorizationItemResource,
  authorizationResource,
  returnItemResource,
} from '../operations/v3-returns.ts';
import { shipmentItemResource, shipmentResource } from '../operations/v3-shipments.ts';
import type { WorldOptions } from '../options.ts';
import { badParameter } from '../refusal.ts';
import { finishOrder } from '../robot/fulfil.ts';
import { finishReturn } from '../robot/returns.ts';
import { orderMembers, placeRequestedOrder, seedMembers, seedShipments } from '../robot/shop.ts';
import { announceReturn } from '../rules/announcements.ts';
import { addHouseNumber, checkOrderNumber } from '../rules/orders.ts';
import { type ClientStore, toFractions } from '../store/client-store.ts';
import { shipmentStatuses } from '../store/model.ts';
import type { Simulation } from '../store/simulation.ts';
import type { World } from '../world.ts';
import { toFraction, writeInstant } from '../zone.ts';

const config = { operation: null };
const quantity = z.int().min(1).max(1_000_000);
const maxAdvanceSeconds = 400 * 86_400;

type AddControl = <T extends z.ZodType>(
  path: string,
  schema: T,
  run: (body: z.output<T>) => unknown,
) => void;
/** Adds a control of one client, which the member `client` of the body names. */
type AddClientControl = <T extends z.ZodRawShape>(
  path: string,
  members: T,
  run: (simulation: Simulation, body: z.output<z.ZodObject<T>>, nowMs: number) => unknown,
) => void;

/**
 * Adds the controls `/_sandbox/*`. They need no token: anybody who can reach the port can use them.
 */
export function addControlRoutes(app: FastifyInstance, world: World): void {
  const addControl: AddControl = (path, schema, run) =>
    app.post(`/_sandbox/${path}`, { config }, async (request) => {
      const answer = run(schema.parse(request.body));
      world.changes++;
      return answer;
    });
  const addClientControl: AddClientControl = (path, members, run) =>
    addControl(path, z.strictObject({ client: z.string(), ...members }), (body) => {
      const { client, ...wanted } = body as { client: string };
      return run(world.requireClient(client).simulation, wanted as never, world.clock.nowMs());
    });
  addTimeControls(addControl, world);
  addOrderControls(addClientControl);
  addReturnControls(addClientControl);
  addEditControls(addClientControl);
  addFaultControls(addControl, app, world);
  app.get('/_sandbox/switches', { config }, async () => world.switches);
  app.put('/_sandbox/switches', { config }, async (request) => {
    world.setSwitches(request.body);
    world.changes++;
    return world.switches;
  });
  addLogRoutes(app, world);
}

const resetSchema = z
  .strictObject({
    seed: z.int().optional(),
    startMs: z.int().optional(),
    speed: z.number().min(0).optional(),
    ordersPerDay: z.number().min(0).max(1_000_000).optional(),
    lateChanges: z.boolean().optional(),
  })
  .nullish();
const advanceSchema = z.strictObject({ seconds: z.number().positive().max(maxAdvanceSeconds) });

function addTimeControls(addControl: AddControl, world: World): void {
  addControl('reset', resetSchema, (given) => {
    world.reset({ ...given } as Partial<WorldOptions>);
    return given ?? {};
  });
  addControl('advance', advanceSchema, ({ seconds }) => {
    world.clock.advance(seconds * 1_000);
    for (const name of world.clientNames) world.requireClient(name);
    return { now: new Date(world.clock.nowMs()).toISOString() };
  });
}

function addOrderControls(addControl: AddClientControl): void {
  addControl('seed', seedMembers, (simulation, wanted, nowMs) => {
    seedShipments(simulation, wanted, nowMs);
    const { name, shipments, orders } = simulation.store;
    return { client: name, shipments: shipments.size, orders: orders.size };
  });
  addControl('order', orderMembers, (simulation, wanted, nowMs) => {
    const order = placeRequestedOrder(simulation, wanted, nowMs);
    return { orderId: order.id, externalOrderNumber: order.externalOrderNumber };
  });
  addControl(
    'ship',
    { externalOrderNumber: z.string() },
    (simulation, { externalOrderNumber }, nowMs) => {
      const order = requireOrder(simulation, externalOrderNumber);
      const shipped = finishOrder(simulation, order, nowMs);
      return { externalOrderNumber, shipped, shipmentIds: order.shipmentIds };
    },
  );
}

/** Returns a row that a control names. Refuses the member of its body if there is none. */
function requireFound<T>(row: T | undefined, member: string, problem: string): T {
  if (row === undefined) throw badParameter(member, problem);
  return row;
}

const requireOrder = ({ store }: Simulation, externalOrderNumber: string) =>
  requireFound(
    store.orderByNumber.get(externalOrderNumber),
    'externalOrderNumber',
    'is no order of this client',
  );

const returnMembers = {
  shipmentId: z.int(),
  shipmentItemId: z.int().optional(),
  quantity: quantity.optional(),
  /** The first available reason if absent. */
  reasonId: z.int().optional(),
  externalReference: z.string().optional(),
};

function addReturnControls(addControl: AddClientControl): void {
  addControl('return', returnMembers, (simulation, { shipmentId, ...wanted }, nowMs) => {
    const { shipmentItemId, externalReference = null } = wanted;
    const reasonId = wanted.reasonId ?? simulation.store.lists.returnReasons[0]?.id ?? 0;
    const items = simulation.store.shipments.get(shipmentId)?.items ?? [];
    const returned = items.filter(
      ({ id }) => shipmentItemId === undefined || id === shipmentItemId,
    );
    if (returned.length === 0)
      throw badParameter('shipmentId', 'is no shipment of this client with that item');
    const lines = returned.map((item) => ({
      shipmentItemId: item.id,
      quantity: wanted.quantity ?? item.quantity,
      reasonId,
      externalReference: null,
      metadata: {},
    }));
    const draft = { shipmentId, externalReference, comments: null, metadata: {}, lines };
    return { authorizationId: announceReturn(simulation, draft, nowMs).id, shipmentId };
  });
  addControl(
    'return/process',
    { authorizationId: z.int() },
    (simulation, { authorizationId }, nowMs) => {
      const found = simulation.store.authorizations.get(authorizationId);
      const authorization = requireFound(
        found,
        'authorizationId',
        'is no announced return of this client',
      );
      const items = finishReturn(simulation, authorization, nowMs);
      return { authorizationId, returnItemIds: items.map(({ id }) => id) };
    },
  );
}

const editMembers = {
  shipmentIds: z.array(z.int()).min(1),
  status: z.enum(shipmentStatuses).optional(),
  returnLabel: z.string().nullable().optional(),
  itemQuantity: z.int().min(0).optional(),
};
const renameMembers = { orderId: z.int(), externalOrderNumber: z.string().min(1) };
const houseNumberMembers = { externalOrderNumber: z.string(), houseNumber: z.string().min(1) };
const stockMembers = { sku: z.string(), warehouse: z.string(), quantity: z.int().min(0) };

function addEditControls(addControl: AddClientControl): void {
  addControl(
    'edit',
    editMembers,
    ({ store }, { shipmentIds, status, returnLabel, itemQuantity }, nowMs) => {
      const shipments = shipmentIds.map((id) =>
        requireFound(store.shipments.get(id), 'shipmentIds', `${id} is no shipment of this client`),
      );
      for (const shipment of shipments) {
        if (status !== undefined) store.setStatus(shipment, status, nowMs);
        if (returnLabel !== undefined) shipment.returnLabel = returnLabel;
        if (itemQuantity !== undefined)
          for (const item of shipment.items) item.quantity = itemQuantity;
      }
      return { edited: shipmentIds.length };
    },
  );
  addControl('rename', renameMembers, (simulation, { orderId, externalOrderNumber }) => {
    const order = requireFound(
      simulation.store.orders.get(orderId),
      'orderId',
      'is no order of this client',
    );
    checkOrderNumber(simulation, externalOrderNumber, order);
    simulation.store.changeOrder(order, () => {
      order.externalOrderNumber = externalOrderNumber;
    });
    return { orderId, externalOrderNumber };
  });
  addControl(
    'house-number',
    houseNumberMembers,
    (simulation, { externalOrderNumber, houseNumber }, nowMs) => {
      const order = requireOrder(simulation, externalOrderNumber);
      addHouseNumber(simulation, order, houseNumber, nowMs);
      return { externalOrderNumber, notValid: order.notValid };
    },
  );
  addControl('stock', stockMembers, (simulation, { sku, warehouse, quantity }, nowMs) => {
    const product = simulation.store.products.get(sku);
    if (product === undefined || !Object.hasOwn(product.stock, warehouse))
      throw badParameter('sku', 'has no stock in that warehouse');
    product.stock[warehouse] = quantity;
    simulation.retryWaitingOrders(nowMs);
    return { sku, stock: product.stock };
  });
}

function addFaultControls(addControl: AddControl, app: FastifyInstance, world: World): void {
  app.get('/_sandbox/faults', { config }, async () => world.faults.list());
  app.post('/_sandbox/faults', { config }, async (request) => {
    const faults = Array.isArray(request.body)
      ? z.array(faultSchema).parse(request.body)
      : [faultSchema.parse(request.body)];
    const names = operations.map(({ name }) => name);
    const wrong = faults.find(
      ({ operation }) => !names.some((name) => matchesOperation(operation, name)),
    );
    if (wrong)
      throw badParameter(
        'operation',
        `no operation matches ${wrong.operation}; known are ${names.join(', ')}`,
      );
    for (const fault of faults) world.faults.add(fault);
    world.changes++;
    return world.faults.list();
  });
  addControl('faults/remove', z.strictObject({ number: z.int() }), ({ number }) => {
    world.faults.remove(number);
    return world.faults.list();
  });
  app.delete('/_sandbox/faults', { config }, async () => {
    world.faults.clear();
    world.changes++;
    return [];
  });
}

function addLogRoutes(app: FastifyInstance, world: World): void {
  app.get('/_sandbox/requests', { config }, async (request) => {
    const { after } = z.object({ after: z.coerce.number().int().default(0) }).parse(request.query);
    return world.log.since(after);
  });
  app.get('/_sandbox/requests/:place', { config }, async (request) => {
    const { place } = z.object({ place: z.coerce.number().int() }).parse(request.params);
    return world.log.readExchange(place);
  });
  app.get('/_sandbox/findings', { config }, async () => ({
    findings: world.findings.list(),
    beyondLimit: world.findings.beyondLimit,
  }));
  app.get('/_sandbox/state', { config }, async (request) => {
    const { lists } = stateQuerySchema.parse(request.query);
    const clients = world.clientNames.map((name) => dumpClient(world, name, lists));
    return { now: new Date(world.clock.nowMs()).toISOString(), clients };
  });
}

type DumpedList = (store: ClientStore, nowMs: number) => Record<string, unknown>[];

/** Returns what the state shows of rows: their resources, and more members. */
const dump = <Row>(
  rows: Iterable<Row>,
  store: ClientStore,
  resource: Resource<Row>,
  readMore: (row: Row) => Record<string, unknown>,
) => [...rows].map((row) => ({ resource: resource.render(row, store), ...readMore(row) }));

const renderItems = <Item>(items: readonly Item[], store: ClientStore, resource: Resource<Item>) =>
  items.map((item) => resource.render(item, store));

/**
 * The lists of `/_sandbox/state`. `instants` are the UTC instants of times that are shown without a
 * zone.
 */
const dumpedLists = {
  products: ({ products }) =>
    [...products.values()].map(({ encodedImage: _, ...product }) => product),
  orders: (store) =>
    dump(store.orders, store, orderResource, (order) => ({
      included: orderResource.renderIncluded(order, store, orderResource.includeNames),
      notValid: order.notValid,
      attachments: order.attachments,
      /** Fulfilled quantity of each item, in the order of the items. */
      fulfilled: order.items.map(({ fulfilled }) => fulfilled),
    })),
  shipments: (store, nowMs) =>
    dump(store.shipments, store, shipmentResource, (shipment) => ({
      items: renderItems(shipment.items, store, shipmentItemResource),
      tracks: shipment.tracks,
      visible: shipment.visibleFromMs <= nowMs,
      instants: {
        readyToPickOn: writeInstant(shipment.readyToPickOnMs, toFractions(shipment).readyToPickOn),
        readyToShipOn: writeInstant(shipment.readyToShipOnMs, toFractions(shipment).later),
        shippedOn: writeInstant(shipment.shippedOnMs, toFractions(shipment).later),
      },
    })),
  returnMerchandiseAuthorizations: (store) =>
    dump(store.authorizations, store, authorizationResource, ({ items }) => ({
      items: renderItems(items, store, authorizationItemResource),
    })),
  returnItems: (store) =>
    dump(store.returnItems, store, returnItemResource, ({ id, processedOn, restockOnMs }) => ({
      visible: processedOn !== null,
      instants: { restockOn: writeInstant(restockOnMs, toFraction(id, 0)) },
    })),
  inbounds: (store) =>
    dump(store.inbounds, store, inboundResource, ({ items }) => ({
      items: renderItems(items, store, inboundItemResource),
    })),
  inboundPackingSlips: (store) =>
    dump(store.slips, store, slipResource, ({ items }) => ({
      items: renderItems(items, store, slipItemResource),
    })),
} as const satisfies Record<string, DumpedList>;
type StateList = keyof typeof dumpedLists;
const stateLists = Object.keys(dumpedLists) as [StateList, ...StateList[]];

const stateQuerySchema = z.strictObject({
  lists: z
    .string()
    .transform((text) => text.split(','))
    .pipe(z.array(z.enum(stateLists)))
    .default([...stateLists]),
});

function dumpClient(world: World, name: string, lists: readonly StateList[]) {
  const { store } = world.requireClient(name).simulation;
  const read = (list: StateList) => {
    const entries = dumpedLists[list](store, world.clock.nowMs());
    return world.switches.dialect === 'plain'
      ? entries
      : entries.map((entry) => toRichEntry(entry, store));
  };
  return { client: name, ...Object.fromEntries(lists.map((list) => [list, read(list)])) };
}
