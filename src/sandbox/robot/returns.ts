import { dayMs, hourMs } from '../../core/time.ts';
import { ruleBroken } from '../refusal.ts';
import { isProcessed } from '../rules/announcements.ts';
import { addStock } from '../rules/products.ts';
import type { Client, Performers } from '../store/client.ts';
import type { Authorization, ReturnItem, Shipment, ShipmentItem } from '../store/model.ts';

interface ReturnPart {
  readonly item: ShipmentItem;
  readonly quantity: number;
  readonly reasonId: number;
}

/** Plans a return that is not announced, for some shipments. */
export function planUnannouncedReturn(client: Client, { id }: Shipment, atMs: number): void {
  if (!client.random.chance(0.06)) return;
  const arrivesMs = atMs + client.random.between(48, 240) * hourMs;
  client.plan(arrivesMs, { kind: 'send-back', shipmentId: id, authorizationId: null });
}

export const returnTasks = {
  /**
   * Receives a return and plans to process its items, some after weeks: an old id then becomes
   * visible late.
   */
  'send-back': (client, atMs, task) => {
    const { random, authorizations, shipments } = client;
    const { authorizationId } = task;
    const authorization = authorizationId === null ? null : authorizations.get(authorizationId);
    // The announced return was removed, or processed by hand.
    if (authorization === undefined || (authorization && isProcessed(authorization))) return;

    // The authorization may have been replaced by one for another shipment.
    const shipment = shipments.get(authorization?.shipmentId ?? task.shipmentId);
    if (shipment?.status !== 'SHIPPED') {
      if (shipment !== undefined) client.plan(atMs + dayMs, task);
      return;
    }

    const parts = authorization
      ? listAnnouncedParts(shipment, authorization)
      : [drawPart(client, shipment)];
    const returnId = client.nextId();
    for (const part of parts.filter(({ quantity }) => quantity > 0)) {
      part.item.returned += part.quantity;
      const row = createReturnItem(client, { returnId, authorizationId }, shipment, part);
      client.returnItems.add(row);

      const waitMs = random.chance(0.15)
        ? random.between(5, 25) * dayMs
        : random.between(1, 60) * hourMs;
      client.plan(atMs + waitMs, { kind: 'process-return', returnItemId: row.id });
    }
  },

  /** Processes a return item, which lists it. It is restocked at once, later or never. */
  'process-return': (client, atMs, { returnItemId }) => {
    const { random } = client;
    const row = client.returnItems.get(returnItemId);
    // It may have been processed by hand in the meantime.
    if (row === undefined || row.processedOn !== null) return;

    row.comment = random.chance(0.2) ? 'Box damaged' : null;
    row.processedOn = client.zone.day(atMs);
    linkAuthorization(client, row, row.processedOn);

    const chance = random.next();
    const waitMs = chance < 0.6 ? 0 : random.between(1, 10) * dayMs;
    if (chance < 0.85) client.plan(atMs + waitMs, { kind: 'restock', returnItemId });
  },

  /** Returns the goods of a return item to the stock. */
  restock: (client, atMs, { returnItemId }) => {
    const row = client.returnItems.get(returnItemId);
    if (row === undefined) return;

    row.restockIn = row.processedIn;
    row.restockOnMs = client.zone.skipRepeatedHour(atMs);
    addStock(client, row.sku, row.restockIn, row.quantity);
    client.retryWaitingOrders(atMs);
  },
} satisfies Partial<Performers>;

function drawPart({ random, lists }: Client, shipment: Shipment): ReturnPart {
  const item = random.pick(shipment.items);
  const left = item.quantity - item.returned;
  const quantity = left > 0 ? random.between(1, left) : 0;
  return { item, quantity, reasonId: random.pick(lists.returnReasons).id };
}

function listAnnouncedParts(shipment: Shipment, { items }: Authorization): ReturnPart[] {
  // No two lines of an authorization refer to the same item.
  return items.flatMap(({ shipmentItemId, quantity: announced, reasonId }) => {
    const item = shipment.items.find(({ id }) => id === shipmentItemId);
    if (item === undefined) return [];
    return [{ item, quantity: Math.min(announced, item.quantity - item.returned), reasonId }];
  });
}

function createReturnItem(
  client: Client,
  source: Pick<ReturnItem, 'returnId' | 'authorizationId'>,
  shipment: Shipment,
  { item, quantity, reasonId }: ReturnPart,
): ReturnItem {
  return {
    ...source,
    id: client.nextId(),
    sku: item.sku,
    quantity,
    processedOn: null,
    processedIn: shipment.warehouseCode,
    restockIn: null,
    restockOnMs: null,
    comment: null,
    redeliver: client.random.chance(0.1),
    orderId: shipment.orderId,
    orderItemId: item.orderItemId,
    reasonId,
    shipmentItemId: item.id,
    authorizationItemId: null,
  };
}

function linkAuthorization(client: Client, row: ReturnItem, processedOn: string): void {
  const authorization = client.authorizations.get(row.authorizationId ?? 0);
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
  client: Client,
  { id: authorizationId, shipmentId }: Authorization,
  nowMs: number,
): ReturnItem[] {
  if (client.shipments.get(shipmentId)?.status !== 'SHIPPED')
    throw ruleBroken(`Shipment ${shipmentId} has not been shipped, so nothing of it can come back`);

  const task = { shipmentId, authorizationId };
  const listItems = () =>
    client.returnItems.filter((row) => row.authorizationId === authorizationId);
  if (listItems().length === 0)
    returnTasks['send-back'](client, nowMs, { kind: 'send-back', ...task });

  const items = listItems().filter(({ processedOn }) => processedOn === null);
  if (items.length === 0)
    throw ruleBroken(
      `Return ${authorizationId} was processed before, or nothing of it is left to come back`,
    );
  for (const { id: returnItemId } of items)
    returnTasks['process-return'](client, nowMs, { kind: 'process-return', returnItemId });
  return items;
}
