/** The controls of the sandbox: time, the business of a client, faults, switches and state. */

import type { FastifyContextConfig, FastifyInstance, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { faultSchema, matchesOperation } from '../faults.ts';
import { operations } from '../operations/all.ts';
import type { WorldOptions } from '../options.ts';
import { badParameter } from '../refusal.ts';
import { finishReturn } from '../robot/returns.ts';
import { finishOrder } from '../robot/shipments.ts';
import { orderMembers, placeRequestedOrder, seedMembers, seedShipments } from '../robot/shop.ts';
import { announceReturn } from '../rules/announcements.ts';
import { addHouseNumber, checkOrderNumber } from '../rules/orders.ts';
import type { Client } from '../store/client.ts';
import { shipmentStatuses } from '../store/model.ts';
import type { World } from '../world.ts';
import { readState } from './state.ts';

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

/** Returns a row that a control names. Refuses the member of its body if there is none. */
function requireFound<T>(row: T | undefined, member: string, problem: string): T {
  if (row === undefined) throw badParameter(member, problem);
  return row;
}

const requireOrder = ({ orderByNumber }: Client, number: string) =>
  requireFound(orderByNumber.get(number), 'externalOrderNumber', 'is no order of this client');

const editMembers = {
  shipmentIds: z.array(z.int()).min(1),
  status: z.enum(shipmentStatuses).optional(),
  returnLabel: z.string().nullable().optional(),
  itemQuantity: z.int().min(0).optional(),
};

const clientControls: Readonly<Record<string, ClientControl>> = {
  seed: control(seedMembers, (client, wanted, nowMs) => {
    seedShipments(client, wanted, nowMs);
    return {
      client: client.name,
      shipments: client.shipments.size,
      orders: client.orders.size,
    };
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
      const { items } = requireFound(known, 'shipmentId', 'is no shipment of this client');
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
      'authorizationId',
      'is no announced return of this client',
    );
    const items = finishReturn(client, authorization, nowMs);
    return { authorizationId, returnItemIds: items.map(({ id }) => id) };
  }),
  edit: control(editMembers, (client, wanted, nowMs) => {
    const { shipmentIds, status, returnLabel, itemQuantity } = wanted;
    const shipments = shipmentIds.map((id) =>
      requireFound(client.shipments.get(id), 'shipmentIds', `${id} is no shipment of this client`),
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
      const order = requireFound(known, 'orderId', 'is no order of this client');
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
