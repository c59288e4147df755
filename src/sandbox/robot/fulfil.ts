import { dayMs, hourMs, minuteMs } from '../../core/time.ts';
import type { Life } from '../store/life.ts';
import type { Order, OrderItem, Product, Shipment, ShipmentItem, ShipmentStatus } from '../store/model.ts';
import { none } from '../store/none.ts';
import { settings, warehouseCodes } from '../store/settings.ts';
import { follow } from './carrier.ts';
import { considerReturn } from './returns.ts';

/** What is to be taken of one order line. */
interface Pick {
  readonly item: OrderItem;
  readonly product: Product;
  readonly quantity: number;
  readonly warehouse: string;
}

/** Sends what an order still waits for, as far as nothing holds it back: in one parcel, or in several. */
export function fulfil(life: Life, atMs: number, orderId: number): void {
  const order = life.store.orders.get(orderId);
  if (order === undefined || isHeldBack(life, order, atMs)) return;
  const lines = openLines(life, order);
  const goods = lines.filter(({ product }) => !product.service);
  if (goods.length === 0) {
    serve(lines);
    return;
  }
  const preferred = life.random.chance(0.5) ? warehouseCodes : [...warehouseCodes].reverse();
  const picks: Pick[] = [];
  for (const { item, product } of goods) picks.push(...pickLine(order, item, product, preferred, picks));
  const isWhole = goods.every(({ item }) => taken(picks, item) === item.quantity - item.fulfilled);
  if (!isWhole) life.waitingForStock.add(order.id);
  if (picks.length === 0 || (!isWhole && !order.allowPartialDelivery)) return;
  const now = order.allowPartialDelivery ? splitOff(life, picks) : picks;
  if (now.length < picks.length) life.plan(atMs + hourMs, { kind: 'fulfil', orderId });
  serve(lines);
  for (const warehouse of warehouseCodes) {
    const parcel = now.filter((pick) => pick.warehouse === warehouse);
    if (parcel.length > 0) ship(life, order, parcel, atMs);
  }
}

function isHeldBack(life: Life, order: Order, atMs: number): boolean {
  if (order.onHold || order.notValid) return true;
  const { preferredShippingDate } = order;
  if (preferredShippingDate === null || preferredShippingDate <= life.store.zone.day(atMs)) {
    life.waitingForDay.delete(order.id);
    return false;
  }
  if (life.waitingForDay.get(order.id) === preferredShippingDate) return true;
  life.waitingForDay.set(order.id, preferredShippingDate);
  life.plan(life.store.zone.atHour(preferredShippingDate, 6), { kind: 'fulfil', orderId: order.id });
  return true;
}

function openLines(life: Life, order: Order): { item: OrderItem; product: Product }[] {
  return order.items
    .filter(({ quantity, fulfilled }) => quantity > fulfilled)
    .map((item) => ({ item, product: life.store.products.get(item.sku) as Product }));
}

/** Service products need no stock and no parcel: they are done with the first goods that leave. */
function serve(lines: readonly { item: OrderItem; product: Product }[]): void {
  for (const { item, product } of lines) if (product.service) item.fulfilled = item.quantity;
}

/**
 * Where the rest of a line is taken from: the warehouse that is named, or else one that has all of it, or else as many as
 * it takes. What other lines take is not there any more.
 */
function pickLine(
  order: Order,
  item: OrderItem,
  product: Product,
  preferred: readonly string[],
  others: readonly Pick[],
): Pick[] {
  const wanted = item.quantity - item.fulfilled;
  const named = item.fulfillFrom ?? order.fulfillFrom;
  const choices = named === null ? preferred : [named];
  const stockOf = (code: string) => {
    const spoken = others.filter((pick) => pick.product === product && pick.warehouse === code);
    return (product.stock[code] ?? 0) - spoken.reduce((sum, { quantity }) => sum + quantity, 0);
  };
  const whole = choices.find((code) => stockOf(code) >= wanted);
  let missing = wanted;
  return (whole === undefined ? choices : [whole]).flatMap((warehouse) => {
    const quantity = Math.min(missing, stockOf(warehouse));
    missing -= quantity;
    return quantity > 0 ? [{ item, product, quantity, warehouse }] : [];
  });
}

function taken(picks: readonly Pick[], item: OrderItem): number {
  return picks.filter((pick) => pick.item === item).reduce((sum, { quantity }) => sum + quantity, 0);
}

/** Of some orders one half leaves an hour before the other. */
function splitOff(life: Life, picks: readonly Pick[]): readonly Pick[] {
  return picks.length > 1 && life.random.chance(0.2) ? picks.slice(0, Math.ceil(picks.length / 2)) : picks;
}

function ship(life: Life, order: Order, picks: readonly Pick[], atMs: number): void {
  const { random, store } = life;
  const lateMs = random.chance(0.03) ? random.between(2, 30) * hourMs : 0;
  const items = picks.map((pick) => itemOf(life, pick, atMs));
  for (const { item, product, quantity, warehouse } of picks) {
    item.fulfilled += quantity;
    product.stock[warehouse] = (product.stock[warehouse] ?? 0) - quantity;
  }
  const shipment = newShipment(life, order, items, picks[0]?.warehouse ?? '', atMs, atMs + lateMs);
  store.addShipment(shipment, order);
  if (lateMs === 0) store.showShipment(shipment, atMs);
  else life.plan(atMs + lateMs, { kind: 'show', shipmentId: shipment.id });
  const path: ShipmentStatus[] = random.chance(0.5) ? ['READY_TO_SORT', 'READY_TO_SHIP'] : ['READY_TO_SHIP'];
  if (random.chance(0.04)) path.unshift('ERROR');
  // Most wait until they can be seen; some go their way unseen.
  const unseen = life.habits.lateChanges && lateMs > 0 && random.chance(0.4);
  planMove(life, shipment, [...path, 'SHIPPED'], unseen ? atMs : atMs + lateMs);
}

/** A shipment that waits for the warehouse. Its items are drawn before it. */
export function newShipment(
  life: Life,
  order: Order,
  items: readonly ShipmentItem[],
  warehouseCode: string,
  atMs: number,
  visibleFromMs: number,
): Shipment {
  return {
    id: life.ids.next(),
    status: 'READY_TO_PICK',
    readyToPickOnMs: life.store.zone.clear(atMs),
    readyToShipOnMs: null,
    shippedOnMs: null,
    warehouseCode,
    returnLabel: null,
    orderId: order.id,
    orderTypeId: order.orderTypeId,
    shippingMethodId: order.shippingMethodId ?? settings.mainShippingMethods[0].id,
    items,
    tracks: none,
    visibleFromMs,
  };
}

/** A line of a parcel. Lots expire one to three years on. */
export function itemOf(life: Life, { item, product, quantity }: Omit<Pick, 'warehouse'>, atMs: number): ShipmentItem {
  const { random } = life;
  const [hasLot, hasSerials] = [product.keeping === 'lots', product.keeping === 'serials'];
  return {
    id: life.ids.next(),
    sku: item.sku,
    quantity,
    lotNumber: hasLot ? `LOT${random.between(100, 999)}` : null,
    expirationDate: hasLot ? life.store.zone.day(atMs + random.between(365, 1_095) * dayMs) : null,
    serialNumbers: hasSerials ? Array.from({ length: quantity }, () => `SN${random.between(10_000, 99_999)}`) : none,
    orderItemId: item.id,
    productId: item.productId,
    returned: 0,
  };
}

/** Does one move of a shipment, and plans the next. */
export function move(life: Life, atMs: number, shipmentId: number, [status, ...rest]: readonly ShipmentStatus[]): void {
  const shipment = life.store.shipments.get(shipmentId);
  // Somebody may have moved it on by hand.
  if (shipment === undefined || status === undefined || shipment.status === 'SHIPPED') return;
  life.store.setStatus(shipment, status, atMs);
  planMove(life, shipment, rest, atMs);
  if (status !== 'SHIPPED') return;
  follow(life, shipment, atMs);
  considerReturn(life, shipment, atMs);
  if (life.habits.lateChanges && life.random.chance(0.03))
    life.plan(atMs + life.random.between(1, 20) * dayMs, { kind: 'amend', shipmentId });
}

/** Details of a shipment change after it was taken by the carrier (interface.md, v3 shipments, a note that is not shown whole). */
export function amend(life: Life, shipmentId: number): void {
  const shipment = life.store.shipments.get(shipmentId);
  if (shipment === undefined) return;
  shipment.returnLabel = `RL${life.random.between(100_000, 999_999)}`;
  const [first] = shipment.items;
  if (first?.lotNumber) first.lotNumber = `LOT${life.random.between(100, 999)}`;
}

function planMove(life: Life, shipment: Shipment, path: readonly ShipmentStatus[], fromMs: number): void {
  if (path.length === 0) return;
  // Out of ERROR it takes a person, and so days rather than hours.
  const { random } = life;
  const waitMs = shipment.status === 'ERROR' ? random.between(24, 72) * hourMs : random.between(20, 300) * minuteMs;
  life.plan(fromMs + waitMs, { kind: 'move', shipmentId: shipment.id, path });
}
