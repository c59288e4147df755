/**
 * The controls that let the business of a client take its next step at once: order, shipment and return.
 */

import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { badParameter } from '../refusal.ts';
import { finishOrder } from '../robot/fulfil.ts';
import { finishReturn } from '../robot/returns.ts';
import { placeRequestedOrder } from '../robot/shop.ts';
import { announceReturn } from '../rules/authorizations.ts';
import type { World } from '../world.ts';
import { readControlBody } from './control-body.ts';

const quantity = z.number().int().min(1).max(1_000_000);
const orderSchema = z.strictObject({
  client: z.string(),
  externalOrderNumber: z.string().min(1).max(50).optional(),
  lines: z
    .array(z.strictObject({ sku: z.string().min(1), quantity: quantity.default(1) }))
    .min(1)
    .max(100)
    .optional(),
  onHold: z.boolean().default(false),
});
const shipSchema = z.strictObject({ client: z.string(), externalOrderNumber: z.string() });
const returnSchema = z.strictObject({
  client: z.string(),
  shipmentId: z.number().int(),
  shipmentItemId: z.number().int().optional(),
  quantity: quantity.optional(),
  /** The first available reason if absent. */
  reasonId: z.number().int().optional(),
  externalReference: z.string().optional(),
});
const processSchema = z.strictObject({ client: z.string(), authorizationId: z.number().int() });

/** Adds the controls for orders, shipments and returns. */
export function addBusinessRoutes(app: FastifyInstance, world: World): void {
  const config = { operation: null };
  app.post('/_sandbox/order', { config }, async (request) => {
    const { client, ...wanted } = readControlBody(request, orderSchema);
    const order = placeRequestedOrder(world.requireClient(client).simulation, wanted, world.clock.nowMs());
    world.changes++;
    return { orderId: order.id, externalOrderNumber: order.externalOrderNumber };
  });
  app.post('/_sandbox/ship', { config }, async (request) => {
    const { client, externalOrderNumber } = readControlBody(request, shipSchema);
    const { simulation } = world.requireClient(client);
    const order = simulation.store.orderByNumber.get(externalOrderNumber);
    if (order === undefined) throw badParameter('externalOrderNumber', 'is no order of this client');
    const shipped = finishOrder(simulation, order, world.clock.nowMs());
    world.changes++;
    return { externalOrderNumber, shipped, shipmentIds: order.shipmentIds };
  });
  addReturnRoutes(app, world);
}

function addReturnRoutes(app: FastifyInstance, world: World): void {
  const config = { operation: null };
  app.post('/_sandbox/return', { config }, async (request) => {
    const { client, shipmentId, ...wanted } = readControlBody(request, returnSchema);
    const { simulation } = world.requireClient(client);
    const { shipmentItemId, externalReference = null } = wanted;
    const reasonId = wanted.reasonId ?? simulation.store.settings.returnReasons[0]?.id;
    if (reasonId === undefined) throw badParameter('reasonId', 'is required, because the settings have no reason');
    const items = simulation.store.shipments.get(shipmentId)?.items ?? [];
    const returned = items.filter(({ id }) => shipmentItemId === undefined || id === shipmentItemId);
    if (returned.length === 0) throw badParameter('shipmentId', 'is no shipment of this client with that item');
    const lines = returned.map((item) => ({
      shipmentItemId: item.id,
      quantity: wanted.quantity ?? item.quantity,
      reasonId,
      externalReference: null,
      metadata: {},
      claim: { sku: null, productId: null },
    }));
    const draft = { shipmentId, externalReference, comments: null, metadata: {}, lines };
    const { id } = announceReturn(simulation, draft, world.clock.nowMs());
    world.changes++;
    return { authorizationId: id, shipmentId };
  });
  app.post('/_sandbox/return/process', { config }, async (request) => {
    const { client, authorizationId } = readControlBody(request, processSchema);
    const { simulation } = world.requireClient(client);
    const authorization = simulation.store.authorizations.get(authorizationId);
    if (authorization === undefined) throw badParameter('authorizationId', 'is no announced return of this client');
    const items = finishReturn(simulation, authorization, world.clock.nowMs());
    world.changes++;
    return { authorizationId, returnItemIds: items.map(({ id }) => id) };
  });
}
