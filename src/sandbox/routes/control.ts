import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { faultSchema } from '../faults.ts';
import { switchesSchema } from '../paging.ts';
import { BadRequest } from '../query.ts';
import { orderIncludes, orderResource, shipmentItemResource, shipmentResource } from '../resources.ts';
import { type ClientStore, shipmentStatuses } from '../store.ts';
import { writeInstant } from '../times.ts';
import type { World } from '../world.ts';

const status = z.enum(shipmentStatuses);
const resetSchema = z.strictObject({
  seed: z.number().int().optional(),
  startMs: z.number().int().optional(),
  speed: z.number().min(0).optional(),
});
const advanceSchema = z.strictObject({
  seconds: z
    .number()
    .positive()
    .max(400 * 86_400),
});
const seedSchema = z.strictObject({
  client: z.string(),
  shipments: z.number().int().min(1).max(1_000_000),
  statuses: z.array(status).min(1).default(['SHIPPED']),
  spreadDays: z.number().min(0).max(400).default(30),
});
const editSchema = z.strictObject({
  client: z.string(),
  shipmentIds: z.array(z.number().int()).min(1),
  status: status.optional(),
  returnLabel: z.string().nullable().optional(),
  itemQuantity: z.number().int().optional(),
});
const renameSchema = z.strictObject({ client: z.string(), orderId: z.number().int(), externalOrderNumber: z.string() });

/** `/_sandbox/*`: what makes the sandbox a tool. No part of the interface, and open to whoever can reach the port. */
export function controlRoutes(app: FastifyInstance, world: World): void {
  const config = { operation: null, open: true };
  const inhabitant = (name: string) => {
    const found = world.client(name);
    if (found === undefined) throw new BadRequest('client', `is not one of ${world.clientNames.join(', ')}`);
    return found;
  };

  app.post('/_sandbox/reset', { config }, async (request) => {
    const { seed, startMs, speed } = resetSchema.parse(request.body ?? {});
    world.reset({
      ...(seed === undefined ? {} : { seed }),
      ...(startMs === undefined ? {} : { startMs }),
      ...(speed === undefined ? {} : { speed }),
    });
    return { seed };
  });
  app.post('/_sandbox/seed', { config }, async (request) => {
    const { client, shipments, statuses, spreadDays } = seedSchema.parse(request.body);
    const { robot, store } = inhabitant(client);
    robot.maker.bulk(shipments, statuses, world.clock.nowMs(), spreadDays);
    return { client, shipments: store.shipments.length, orders: store.orders.length };
  });
  app.post('/_sandbox/advance', { config }, async (request) => {
    world.clock.advance(advanceSchema.parse(request.body).seconds * 1_000);
    for (const name of world.clientNames) inhabitant(name);
    return { now: new Date(world.clock.nowMs()).toISOString() };
  });
  app.post('/_sandbox/edit', { config }, async (request) => {
    const { client, shipmentIds, ...change } = editSchema.parse(request.body);
    const { store } = inhabitant(client);
    for (const id of shipmentIds) editShipment(store, id, change, world.clock.nowMs());
    return { edited: shipmentIds.length };
  });
  app.post('/_sandbox/rename', { config }, async (request) => {
    const { client, orderId, externalOrderNumber } = renameSchema.parse(request.body);
    const order = inhabitant(client).store.orderById.get(orderId);
    if (order === undefined) throw new BadRequest('orderId', 'is no order of this client');
    order.externalOrderNumber = externalOrderNumber;
    return { orderId, externalOrderNumber };
  });
  app.get('/_sandbox/switches', { config }, async () => world.switches);
  app.put('/_sandbox/switches', { config }, async (request) => {
    world.switches = switchesSchema.parse(request.body);
    return world.switches;
  });
  app.get('/_sandbox/faults', { config }, async () => world.faults.list());
  app.post('/_sandbox/faults', { config }, async (request) => {
    const faults = z.array(faultSchema).parse(Array.isArray(request.body) ? request.body : [request.body]);
    for (const fault of faults) world.faults.add(fault);
    return world.faults.list();
  });
  app.delete('/_sandbox/faults', { config }, async () => {
    world.faults.clear();
    return [];
  });
  app.get('/_sandbox/requests', { config }, async (request) => {
    const { after } = z.object({ after: z.coerce.number().int().default(0) }).parse(request.query);
    return world.log.since(after);
  });
  app.get('/_sandbox/state', { config }, async () => ({
    now: new Date(world.clock.nowMs()).toISOString(),
    clients: world.clientNames.map((name) => dump(inhabitant(name).store, world.clock.nowMs())),
  }));
}

function editShipment(
  store: ClientStore,
  id: number,
  change: Omit<z.infer<typeof editSchema>, 'client' | 'shipmentIds'>,
  nowMs: number,
): void {
  const shipment = store.shipmentById.get(id);
  if (shipment === undefined) throw new BadRequest('shipmentIds', `${id} is no shipment of this client`);
  if (change.status !== undefined) store.setStatus(shipment, change.status, nowMs);
  if (change.returnLabel !== undefined) shipment.returnLabel = change.returnLabel;
  if (change.itemQuantity !== undefined) for (const item of shipment.items) item.quantity = change.itemQuantity;
}

/** The oracle: everything of one client as resources, with each zone-less time as the instant it stands for. */
function dump(store: ClientStore, nowMs: number) {
  return {
    client: store.name,
    orders: store.orders.map((order) => ({
      resource: orderResource(order),
      included: Object.values(orderIncludes).flatMap((render) => render(order)),
    })),
    shipments: store.shipments.map((shipment) => ({
      resource: shipmentResource(store, shipment),
      items: shipment.items.map(shipmentItemResource),
      visible: shipment.visibleFromMs <= nowMs,
      instants: {
        readyToPickOn: writeInstant(shipment.readyToPickOn),
        readyToShipOn: writeInstant(shipment.readyToShipOn),
        shippedOn: writeInstant(shipment.shippedOn),
      },
    })),
  };
}
