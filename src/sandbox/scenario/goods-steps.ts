import { bookInbound, checkInbound, countInbound, createInbound } from '../robot/inbounds.ts';
import { createReturnItem, listReturn, restockItem } from '../robot/returns.ts';
import { seedShipments } from '../robot/shop.ts';
import { checkWarehouse } from '../rules/place-order.ts';
import { createProduct } from '../store/catalogue.ts';
import type { Shipment, ShipmentItem } from '../store/model.ts';
import type { Simulation } from '../store/simulation.ts';
import { findOrder, findProduct, StepError } from './order-steps.ts';
import type { Arguments } from './schema.ts';

/** Sets the pieces of products in warehouses. Adds products that do not exist. */
export function setStock(simulation: Simulation, atMs: number, stock: Arguments<'stock'>): void {
  const { store, ids } = simulation;
  const { settings } = store;
  for (const [sku, pieces] of Object.entries(stock)) {
    for (const warehouse of Object.keys(pieces)) checkWarehouse(settings, warehouse);
    if (!store.products.has(sku)) store.addProduct(createProduct(ids.next(), sku, sku, settings.warehouseCodes));
    Object.assign(findProduct(store.products, sku).stock, pieces);
  }
  simulation.retryWaitingOrders(atMs);
}

/** Adds shipments of the past days with their orders. */
export function seedHistory(simulation: Simulation, atMs: number, seed: Arguments<'seed'>): void {
  seedShipments(simulation, seed, atMs);
}

/** Processes a return of goods of an order, which lists it at once. Uses an authorization that announced it. */
export function returnGoods(simulation: Simulation, atMs: number, given: Arguments<'return'>): void {
  const { store } = simulation;
  const { returnReasons } = store.settings;
  const { reason = returnReasons[0]?.code } = given;
  const reasonId = returnReasons.find(({ code }) => code === reason)?.id;
  if (reasonId === undefined) throw new StepError(`There is no return reason with the code ${reason}`);
  const shipments = store
    .listShipments(findOrder(simulation, given.order))
    .filter(({ status }) => status === 'SHIPPED');
  for (const [sku, wanted] of Object.entries(given.lines)) {
    const items = shipments.flatMap((row) => findItems(row, sku));
    const left = items.reduce((sum, { item }) => sum + item.quantity - item.returned, 0);
    if (left < wanted) throw new StepError(`Of ${sku}, order ${given.order} has only ${left} to return`);
  }
  const returnId = simulation.ids.next();
  for (const [sku, wanted] of Object.entries(given.lines)) {
    let missing = wanted;
    for (const { shipment, item } of shipments.flatMap((row) => findItems(row, sku))) {
      const quantity = Math.min(missing, item.quantity - item.returned);
      if (quantity <= 0) continue;
      missing -= quantity;
      item.returned += quantity;
      const authorizationId = findAuthorization(simulation, shipment, item);
      const row = createReturnItem(simulation, [returnId, authorizationId], shipment, { item, quantity, reasonId });
      store.returnItems.add(row);
      listReturn(simulation, row, atMs);
      if (given.restock) restockItem(simulation, atMs, row.id);
    }
  }
}

const findItems = (shipment: Shipment, sku: string) =>
  shipment.items.filter((item) => item.sku === sku).map((item) => ({ shipment, item }));

function findAuthorization({ store }: Simulation, shipment: Shipment, item: ShipmentItem): number | null {
  for (const { id, items } of store.listedAuthorizations.findRows('shipment', shipment.id))
    if (items.some(({ shipmentItemId, returnItemId }) => shipmentItemId === item.id && returnItemId === null))
      return id;
  return null;
}

/** Receives goods, counts them and books them as stock. They belong to the slip with the same reference, if any. */
export function receiveGoods(simulation: Simulation, atMs: number, { into, lines, reference }: Arguments<'inbound'>) {
  const { store } = simulation;
  checkWarehouse(store.settings, into);
  for (const sku of Object.keys(lines)) findProduct(store.products, sku);
  const slip = reference === undefined ? undefined : [...store.slips].findLast((row) => row.reference === reference);
  const inbound = createInbound(simulation, atMs, slip ?? null, { receivedIn: into, reference: reference ?? null });
  checkInbound(simulation, atMs, inbound.id);
  const counted = Object.entries(lines).map(([sku, quantity]) => {
    const slipItemId = slip?.items.find((item) => item.sku === sku)?.id ?? null;
    return { sku, quantity, slipItemId };
  });
  countInbound(simulation, atMs, inbound.id, counted);
  bookInbound(simulation, atMs, inbound, slip?.items.every(({ quantity, received }) => received >= quantity) ?? true);
}
