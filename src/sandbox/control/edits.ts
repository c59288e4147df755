import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { badParameter } from '../refusal.ts';
import { addHouseNumber, checkOrderNumber } from '../rules/orders.ts';
import { type Shipment, shipmentStatuses } from '../store/model.ts';
import type { World } from '../world.ts';

const editSchema = z.strictObject({
  client: z.string(),
  shipmentIds: z.array(z.number().int()).min(1),
  status: z.enum(shipmentStatuses).optional(),
  returnLabel: z.string().nullable().optional(),
  itemQuantity: z.number().int().min(0).optional(),
});
const renameSchema = z.strictObject({
  client: z.string(),
  orderId: z.number().int(),
  externalOrderNumber: z.string().min(1),
});
const houseNumberSchema = z.strictObject({
  client: z.string(),
  externalOrderNumber: z.string(),
  houseNumber: z.string().min(1),
});
const stockSchema = z.strictObject({
  client: z.string(),
  sku: z.string(),
  warehouse: z.string(),
  quantity: z.number().int().min(0),
});

/** Adds the controls for changes that people at the warehouse would make by hand. */
export function addEditRoutes(app: FastifyInstance, world: World): void {
  const config = { operation: null };
  app.post('/_sandbox/edit', { config }, async (request) => {
    const { client, shipmentIds, ...change } = editSchema.parse(request.body);
    const { store } = world.requireClient(client).simulation;
    const shipments = shipmentIds.map((id) => {
      const shipment = store.shipments.get(id);
      if (shipment === undefined) throw badParameter('shipmentIds', `${id} is no shipment of this client`);
      return shipment;
    });
    for (const shipment of shipments) {
      if (change.status !== undefined) store.setStatus(shipment, change.status, world.clock.nowMs());
      editShipment(shipment, change);
    }
    world.changes++;
    return { edited: shipmentIds.length };
  });
  app.post('/_sandbox/rename', { config }, async (request) => {
    const { client, orderId, externalOrderNumber } = renameSchema.parse(request.body);
    const { simulation } = world.requireClient(client);
    const order = simulation.store.orders.get(orderId);
    if (order === undefined) throw badParameter('orderId', 'is no order of this client');
    checkOrderNumber(simulation, externalOrderNumber, order);
    simulation.store.changeOrder(order, () => {
      order.externalOrderNumber = externalOrderNumber;
    });
    world.changes++;
    return { orderId, externalOrderNumber };
  });
  app.post('/_sandbox/house-number', { config }, async (request) => {
    const { client, externalOrderNumber, houseNumber } = houseNumberSchema.parse(request.body);
    const { simulation } = world.requireClient(client);
    const order = simulation.store.orderByNumber.get(externalOrderNumber);
    if (order === undefined) throw badParameter('externalOrderNumber', 'is no order of this client');
    addHouseNumber(simulation, order, houseNumber, world.clock.nowMs());
    world.changes++;
    return { externalOrderNumber, notValid: order.notValid };
  });
  app.post('/_sandbox/stock', { config }, async (request) => {
    const { client, sku, warehouse, quantity } = stockSchema.parse(request.body);
    const { simulation } = world.requireClient(client);
    const product = simulation.store.products.get(sku);
    if (product === undefined || !Object.hasOwn(product.stock, warehouse))
      throw badParameter('sku', 'has no stock in that warehouse');
    product.stock[warehouse] = quantity;
    simulation.retryWaitingOrders(world.clock.nowMs());
    world.changes++;
    return { sku, stock: product.stock };
  });
}

function editShipment(
  shipment: Shipment,
  change: Pick<z.infer<typeof editSchema>, 'returnLabel' | 'itemQuantity'>,
): void {
  if (change.returnLabel !== undefined) shipment.returnLabel = change.returnLabel;
  if (change.itemQuantity !== undefined) for (const item of shipment.items) item.quantity = change.itemQuantity;
}
