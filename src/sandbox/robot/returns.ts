import { dayMs, hourMs } from '../../core/time.ts';
import type { Life } from '../store/life.ts';
import type { ReturnItem, Shipment, ShipmentItem } from '../store/model.ts';
import { settings } from '../store/settings.ts';

/** What comes back of one shipment item. */
interface Part {
  readonly item: ShipmentItem;
  readonly quantity: number;
  readonly reasonId: number;
}

/** Some customers send something back without a word. */
export function considerReturn(life: Life, shipment: Shipment, atMs: number): void {
  if (!life.random.chance(0.06)) return;
  const arrivesMs = atMs + life.random.between(48, 240) * hourMs;
  life.plan(arrivesMs, { kind: 'send-back', shipmentId: shipment.id, authorizationId: null });
}

/**
 * A return is delivered: its items get their ids, and are processed one by one. Some are left lying for weeks, so that an
 * old id becomes visible late.
 */
export function receiveReturn(life: Life, atMs: number, shipmentId: number, authorizationId: number | null): void {
  const authorization = authorizationId === null ? null : life.store.authorizations.get(authorizationId);
  // Announced, and then thought better of.
  if (authorization === undefined) return;
  // It may have been replaced by one of another shipment.
  const shipment = life.store.shipments.get(authorization?.shipmentId ?? shipmentId);
  if (shipment === undefined) return;
  if (shipment.status !== 'SHIPPED') {
    life.plan(atMs + dayMs, { kind: 'send-back', shipmentId, authorizationId });
    return;
  }
  const parts = authorization === null ? [anyPart(life, shipment)] : announcedParts(shipment, authorization.items);
  const returnId = life.ids.next();
  for (const { item, quantity, reasonId } of parts.filter((part) => part.quantity > 0)) {
    item.returned += quantity;
    const row = newReturnItem(life, [returnId, authorizationId], shipment, { item, quantity, reasonId });
    life.store.returnItems.add(row);
    const waitMs = life.random.chance(0.15) ? life.random.between(5, 25) * dayMs : life.random.between(1, 60) * hourMs;
    life.plan(atMs + waitMs, { kind: 'process-return', returnItemId: row.id });
  }
}

/** From here on the return item is listed. It is restocked at once, or later, or never. */
export function processReturn(life: Life, atMs: number, returnItemId: number): void {
  const { store, random } = life;
  const row = store.returnItems.get(returnItemId);
  if (row === undefined) return;
  row.processedOn = store.zone.day(atMs);
  row.comment = random.chance(0.2) ? 'Box damaged' : null;
  link(life, row, row.processedOn);
  store.listedReturnItems.add(row);
  const chance = random.next();
  if (chance < 0.6) restock(life, atMs, returnItemId);
  else if (chance < 0.85) life.plan(atMs + random.between(1, 10) * dayMs, { kind: 'restock', returnItemId });
}

/** Puts a returned item back on the shelf. */
export function restock(life: Life, atMs: number, returnItemId: number): void {
  const row = life.store.returnItems.get(returnItemId);
  const product = row && life.store.products.get(row.sku);
  if (row === undefined || product === undefined) return;
  row.restockIn = row.processedIn;
  row.restockOnMs = life.store.zone.clear(atMs);
  product.stock[row.restockIn] = (product.stock[row.restockIn] ?? 0) + row.quantity;
  life.wakeWaiting(atMs);
}

function anyPart({ random }: Life, shipment: Shipment): Part {
  const item = random.pick(shipment.items);
  const left = item.quantity - item.returned;
  return { item, quantity: left > 0 ? random.between(1, left) : 0, reasonId: random.pick(settings.returnReasons).id };
}

function announcedParts(
  shipment: Shipment,
  lines: readonly { shipmentItemId: number; quantity: number; reasonId: number }[],
): Part[] {
  const left = new Map(shipment.items.map((item) => [item.id, item.quantity - item.returned]));
  return lines.flatMap(({ shipmentItemId, quantity, reasonId }) => {
    const item = shipment.items.find(({ id }) => id === shipmentItemId);
    if (item === undefined) return [];
    const comes = Math.min(quantity, left.get(item.id) ?? 0);
    left.set(item.id, (left.get(item.id) ?? 0) - comes);
    return [{ item, quantity: comes, reasonId }];
  });
}

function newReturnItem(
  life: Life,
  [returnId, authorizationId]: readonly [number, number | null],
  shipment: Shipment,
  part: Part,
): ReturnItem {
  const { item, quantity, reasonId } = part;
  return {
    id: life.ids.next(),
    returnId,
    sku: item.sku,
    quantity,
    processedOn: null,
    processedIn: shipment.warehouseCode,
    restockIn: null,
    restockOnMs: null,
    comment: null,
    redeliver: life.random.chance(0.1),
    orderId: shipment.orderId,
    orderItemId: item.orderItemId,
    productId: item.productId,
    reasonId,
    shipmentItemId: item.id,
    authorizationId,
    authorizationItemId: null,
  };
}

/** Ties what came back to the line that announced it. */
function link({ store }: Life, row: ReturnItem, processedOn: string): void {
  const authorization = row.authorizationId === null ? undefined : store.authorizations.get(row.authorizationId);
  const line = authorization?.items.find(
    ({ shipmentItemId, returnItemId }) => shipmentItemId === row.shipmentItemId && returnItemId === null,
  );
  if (authorization === undefined || line === undefined) return;
  line.returnItemId = row.id;
  row.authorizationItemId = line.id;
  authorization.modifiedOn = processedOn;
}
