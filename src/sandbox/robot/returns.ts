import { dayMs, hourMs } from '../../core/time.ts';
import { ruleBroken } from '../refusal.ts';
import { addStock } from '../rules/products.ts';
import type { Authorization, ReturnItem, Shipment, ShipmentItem } from '../store/model.ts';
import type { Simulation, TaskOf } from '../store/simulation.ts';

type ReturnTask = Omit<TaskOf<'process-return'>, 'kind'>;

interface ReturnPart {
  readonly item: ShipmentItem;
  readonly quantity: number;
  readonly reasonId: number;
}

/** Plans a return that is not announced, for some shipments. */
export function planUnannouncedReturn(
  simulation: Simulation,
  shipment: Shipment,
  atMs: number,
): void {
  if (!simulation.random.chance(0.06)) return;
  const arrivesMs = atMs + simulation.random.between(48, 240) * hourMs;
  simulation.plan(arrivesMs, { kind: 'send-back', shipmentId: shipment.id, authorizationId: null });
}

/**
 * Receives a return and plans to process its items, some after weeks: an old id then becomes
 * visible late.
 */
export function receiveReturn(
  simulation: Simulation,
  atMs: number,
  task: TaskOf<'send-back'>,
): void {
  const { shipmentId, authorizationId } = task;
  const { random, store } = simulation;
  const authorization = authorizationId === null ? null : store.authorizations.get(authorizationId);
  // The announced return was removed.
  if (authorization === undefined) return;
  // The announced return was processed by hand.
  if (authorization?.items.some(({ returnItemId }) => returnItemId !== null)) return;
  // The authorization may have been replaced by one for another shipment.
  const shipment = store.shipments.get(authorization?.shipmentId ?? shipmentId);
  if (shipment === undefined) return;
  if (shipment.status !== 'SHIPPED') {
    simulation.plan(atMs + dayMs, task);
    return;
  }
  const parts =
    authorization === null
      ? [drawPart(simulation, shipment)]
      : toAnnouncedParts(shipment, authorization);
  const returnId = simulation.ids.next();
  for (const part of parts.filter(({ quantity }) => quantity > 0)) {
    part.item.returned += part.quantity;
    const row = createReturnItem(simulation, [returnId, authorizationId], shipment, part);
    store.returnItems.add(row);
    const waitMs = random.chance(0.15)
      ? random.between(5, 25) * dayMs
      : random.between(1, 60) * hourMs;
    simulation.plan(atMs + waitMs, { kind: 'process-return', returnItemId: row.id });
  }
}

/** Processes a return item, which lists it. It is restocked at once, later or never. */
export function processReturn(
  simulation: Simulation,
  atMs: number,
  { returnItemId }: ReturnTask,
): void {
  const { store, random } = simulation;
  const row = store.returnItems.get(returnItemId);
  // It may have been processed by hand in the meantime.
  if (row === undefined || row.processedOn !== null) return;
  row.comment = random.chance(0.2) ? 'Box damaged' : null;
  row.processedOn = store.zone.day(atMs);
  linkAuthorization(simulation, row, row.processedOn);
  store.listedReturnItems.add(row);
  const chance = random.next();
  if (chance < 0.6) restockItem(simulation, atMs, { returnItemId });
  else if (chance < 0.85)
    simulation.plan(atMs + random.between(1, 10) * dayMs, { kind: 'restock', returnItemId });
}

/** Returns the goods of a return item to the stock. */
export function restockItem(
  simulation: Simulation,
  atMs: number,
  { returnItemId }: ReturnTask,
): void {
  const row = simulation.store.returnItems.get(returnItemId);
  if (row === undefined) return;
  row.restockIn = row.processedIn;
  row.restockOnMs = simulation.store.zone.skipRepeatedHour(atMs);
  addStock(simulation, row.sku, row.restockIn, row.quantity);
  simulation.retryWaitingOrders(atMs);
}

function drawPart({ random, store }: Simulation, shipment: Shipment): ReturnPart {
  const item = random.pick(shipment.items);
  const left = item.quantity - item.returned;
  const quantity = left > 0 ? random.between(1, left) : 0;
  return { item, quantity, reasonId: random.pick(store.lists.returnReasons).id };
}

function toAnnouncedParts(shipment: Shipment, { items }: Authorization): ReturnPart[] {
  const left = new Map(shipment.items.map((item) => [item.id, item.quantity - item.returned]));
  return items.flatMap(({ shipmentItemId, quantity, reasonId }) => {
    const item = shipment.items.find(({ id }) => id === shipmentItemId);
    if (item === undefined) return [];
    const arriving = Math.min(quantity, left.get(item.id) ?? 0);
    left.set(item.id, (left.get(item.id) ?? 0) - arriving);
    return [{ item, quantity: arriving, reasonId }];
  });
}

function createReturnItem(
  simulation: Simulation,
  [returnId, authorizationId]: readonly [number, number | null],
  shipment: Shipment,
  { item, quantity, reasonId }: ReturnPart,
): ReturnItem {
  return {
    id: simulation.ids.next(),
    returnId,
    sku: item.sku,
    quantity,
    processedOn: null,
    processedIn: shipment.warehouseCode,
    restockIn: null,
    restockOnMs: null,
    comment: null,
    redeliver: simulation.random.chance(0.1),
    orderId: shipment.orderId,
    orderItemId: item.orderItemId,
    productId: item.productId,
    reasonId,
    shipmentItemId: item.id,
    authorizationId,
    authorizationItemId: null,
  };
}

function linkAuthorization({ store }: Simulation, row: ReturnItem, processedOn: string): void {
  const authorization =
    row.authorizationId === null ? undefined : store.authorizations.get(row.authorizationId);
  const line = authorization?.items.find(
    ({ shipmentItemId, returnItemId }) =>
      shipmentItemId === row.shipmentItemId && returnItemId === null,
  );
  if (authorization === undefined || line === undefined) return;
  line.returnItemId = row.id;
  row.authorizationItemId = line.id;
  authorization.modifiedOn = processedOn;
}

/** Receives an announced return, unless it has arrived already, and processes its items. */
export function finishReturn(
  simulation: Simulation,
  authorization: Authorization,
  nowMs: number,
): ReturnItem[] {
  const { store } = simulation;
  const listItems = () =>
    [...store.returnItems].filter((row) => row.authorizationId === authorization.id);
  if (store.shipments.get(authorization.shipmentId)?.status !== 'SHIPPED')
    throw ruleBroken(
      `Shipment ${authorization.shipmentId} has not been shipped, so nothing of it can come back`,
    );
  if (listItems().length === 0) {
    const { id: authorizationId, shipmentId } = authorization;
    receiveReturn(simulation, nowMs, { kind: 'send-back', shipmentId, authorizationId });
  }
  const items = listItems().filter(({ processedOn }) => processedOn === null);
  if (items.length === 0)
    throw ruleBroken(
      `Return ${authorization.id} was processed before, or nothing of it is left to come back`,
    );
  for (const { id } of items) processReturn(simulation, nowMs, { returnItemId: id });
  return items;
}
