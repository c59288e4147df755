import { dayMs, hourMs, minuteMs } from '../../core/time.ts';
import { ruleBroken } from '../refusal.ts';
import { isFulfilled } from '../rules/orders.ts';
import { addStock } from '../rules/products.ts';
import type { Client, TaskOf } from '../store/client.ts';
import type { Order, OrderItem, Product, Shipment, ShipmentItem } from '../store/model.ts';
import { planUnannouncedReturn } from './returns.ts';
import { startTracking } from './tracking.ts';

interface PickedGoods {
  readonly item: OrderItem;
  readonly product: Product;
  readonly quantity: number;
  readonly warehouse: string;
}

/**
 * Ships the open lines of an order, unless it must wait. If stock is missing, only partial delivery
 * ships the rest.
 */
export function fulfilOrder(client: Client, order: Order, atMs: number): void {
  if (isHeldBack(client, order, atMs)) return;

  const open = order.items.filter(({ quantity, fulfilled }) => quantity > fulfilled);
  const isService = ({ sku }: OrderItem) => client.products.get(sku)?.service === true;
  const goods = open.filter((item) => !isService(item));
  const { picks, isWhole } = pickGoods(client, order, goods);
  if (!isWhole) client.waitingForStock.add(order.id);
  if (goods.length > 0 && (picks.length === 0 || !(isWhole || order.allowPartialDelivery))) return;

  const leaving = order.allowPartialDelivery ? chooseFirstHalf(client, picks) : picks;
  if (leaving.length < picks.length)
    client.plan(atMs + hourMs, { kind: 'fulfil', orderId: order.id });

  // Service products need neither stock nor a parcel.
  for (const item of open.filter(isService)) item.fulfilled = item.quantity;
  for (const warehouse of client.lists.findOfferingWarehouses(order.shippingMethodId)) {
    const parcel = leaving.filter((pick) => pick.warehouse === warehouse);
    if (parcel.length > 0) shipGoods(client, order, parcel, atMs);
  }
}

/** Returns whether an order must wait. Plans to fulfil it on its preferred day. */
function isHeldBack(client: Client, order: Order, atMs: number): boolean {
  const { id: orderId, preferredShippingDate: day } = order;
  if (order.onHold || order.notValid) return true;
  if (day === null || day <= client.zone.day(atMs)) {
    client.waitingForDay.delete(orderId);
    return false;
  }

  if (client.waitingForDay.get(orderId) === day) return true;
  client.waitingForDay.set(orderId, day);
  client.plan(client.zone.atHour(day, 6), { kind: 'fulfil', orderId });
  return true;
}

/**
 * Picks each line from the warehouse that it names, from one that has it all, or from several.
 * Returns also whether nothing is missing.
 */
function pickGoods(client: Client, order: Order, goods: readonly OrderItem[]) {
  const picks: PickedGoods[] = [];
  if (goods.length === 0) return { picks, isWhole: true };

  const offering = client.lists.findOfferingWarehouses(order.shippingMethodId);
  const preferred = client.random.chance(0.5) ? offering : offering.toReversed();
  let isWhole = true;

  for (const item of goods) {
    const product = client.products.get(item.sku) as Product;
    const named = item.fulfillFrom ?? order.fulfillFrom;
    const choices = preferred.filter((code) => named === null || code === named);
    const countAvailable = (code: string) =>
      picks
        .filter((pick) => pick.product === product && pick.warehouse === code)
        .reduce((left, { quantity }) => left - quantity, product.stock[code] ?? 0);

    let missing = item.quantity - item.fulfilled;
    const whole = choices.find((code) => countAvailable(code) >= missing);
    for (const warehouse of whole === undefined ? choices : [whole]) {
      const quantity = Math.min(missing, countAvailable(warehouse));
      missing -= quantity;
      if (quantity > 0) picks.push({ item, product, quantity, warehouse });
    }
    if (missing > 0) isWhole = false;
  }

  return { picks, isWhole };
}

/**
 * Returns the picks that leave now. For some orders this is only the first half; the rest leaves an
 * hour later.
 */
function chooseFirstHalf({ random }: Client, picks: readonly PickedGoods[]) {
  const isDivided = picks.length > 1 && random.chance(0.2);
  return isDivided ? picks.slice(0, Math.ceil(picks.length / 2)) : picks;
}

function shipGoods(
  client: Client,
  order: Order,
  picks: readonly PickedGoods[],
  atMs: number,
): void {
  const { random } = client;
  const lateMs = random.chance(0.03) ? random.between(2, 30) * hourMs : 0;
  const visibleFromMs = atMs + lateMs;
  const warehouseCode = picks[0]?.warehouse ?? '';
  const shipment = addShipment(client, order, picks, { warehouseCode, atMs, visibleFromMs });
  for (const { item, quantity, warehouse } of picks) {
    item.fulfilled += quantity;
    addStock(client, item.sku, warehouse, -quantity);
  }

  const { id: shipmentId } = shipment;
  if (lateMs === 0) client.showShipment(shipment, atMs);
  else client.plan(visibleFromMs, { kind: 'show', shipmentId });

  const path: Shipment['status'][] = ['READY_TO_SHIP', 'SHIPPED'];
  if (random.chance(0.5)) path.unshift('READY_TO_SORT');
  if (random.chance(0.04)) path.unshift('ERROR');
  // Most shipments move only when they are visible. With late changes, some move before.
  const isUnseen = client.options.lateChanges && lateMs > 0 && random.chance(0.4);
  planMove(client, shipment, path, isUnseen ? atMs : visibleFromMs);
}

type ShipmentTimes = Pick<Shipment, 'warehouseCode' | 'visibleFromMs'> & { readonly atMs: number };

/** Adds a shipment that waits for the warehouse. No list shows it yet. */
export function addShipment(
  client: Client,
  order: Order,
  goods: readonly Omit<PickedGoods, 'warehouse'>[],
  { atMs, warehouseCode, visibleFromMs }: ShipmentTimes,
): Shipment {
  const items = goods.map((part) => createItem(client, part, atMs));
  const shipment: Shipment = {
    id: client.nextId(),
    status: 'READY_TO_PICK',
    readyToPickOnMs: client.zone.skipRepeatedHour(atMs),
    readyToShipOnMs: null,
    shippedOnMs: null,
    warehouseCode,
    returnLabel: null,
    orderId: order.id,
    orderTypeId: order.orderTypeId,
    shippingMethodId: order.shippingMethodId ?? client.lists.usualMethodId,
    items,
    tracks: [],
    visibleFromMs,
  };

  client.shipments.add(shipment);
  order.shipmentIds = [...order.shipmentIds, shipment.id];
  return shipment;
}

function createItem(
  client: Client,
  { item, product, quantity }: Omit<PickedGoods, 'warehouse'>,
  atMs: number,
): ShipmentItem {
  const serials = product.keeping === 'serials' ? quantity : 0;
  return {
    id: client.nextId(),
    sku: item.sku,
    quantity,
    ...drawLot(client, product, atMs),
    serialNumbers: Array.from(
      { length: serials },
      () => `SN${client.random.between(10_000, 99_999)}`,
    ),
    orderItemId: item.id,
    productId: item.productId,
    returned: 0,
  };
}

const drawLotNumber = ({ random }: Client) => `LOT${random.between(100, 999)}`;

/**
 * Draws the lot of goods, which expires one to three years after `atMs`. Most products have none.
 */
export function drawLot(client: Client, product: Product | undefined, atMs: number) {
  if (product?.keeping !== 'lots') return { lotNumber: null, expirationDate: null };
  return {
    lotNumber: drawLotNumber(client),
    expirationDate: client.zone.day(atMs + client.random.between(365, 1_095) * dayMs),
  };
}

/** Moves a shipment to the next state and plans the move after it. */
export function moveShipment(
  client: Client,
  atMs: number,
  { shipmentId, path: [status, ...rest] }: Omit<TaskOf<'move'>, 'kind'>,
): void {
  const shipment = client.shipments.get(shipmentId);
  // `/_sandbox/edit` may have set the state in the meantime.
  if (shipment === undefined || status === undefined || shipment.status === 'SHIPPED') return;

  client.setStatus(shipment, status, atMs);
  planMove(client, shipment, rest, atMs);
  if (status !== 'SHIPPED') return;

  startTracking(client, shipment, atMs);
  planUnannouncedReturn(client, shipment, atMs);
  if (client.options.lateChanges && client.random.chance(0.03))
    client.plan(atMs + client.random.between(1, 20) * dayMs, { kind: 'amend', shipmentId });
}

/**
 * Changes details of a shipment after the carrier has taken it (docs/interface.md, 10.3 States).
 */
export function amendShipment(client: Client, _: number, { shipmentId }: TaskOf<'amend'>): void {
  const shipment = client.shipments.get(shipmentId);
  if (shipment === undefined) return;

  shipment.returnLabel = `RL${client.random.between(100_000, 999_999)}`;
  const [first] = shipment.items;
  if (first?.lotNumber) first.lotNumber = drawLotNumber(client);
}

function planMove(
  client: Client,
  { id: shipmentId, status }: Shipment,
  path: readonly Shipment['status'][],
  fromMs: number,
): void {
  if (path.length === 0) return;

  // A person must resolve ERROR, which takes days rather than hours.
  const { random } = client;
  const waitMs =
    status === 'ERROR' ? random.between(24, 72) * hourMs : random.between(20, 300) * minuteMs;
  client.plan(fromMs + waitMs, { kind: 'move', shipmentId, path });
}

/**
 * Ships at once all of an order that can be shipped, and counts the shipments. Refuses an order
 * that must wait.
 */
export function finishOrder(client: Client, order: Order, nowMs: number): number {
  const reason = findReasonToWait(client, order, nowMs);
  if (reason !== null) throw cannotBeShipped(order, reason);

  // An order may leave in several steps.
  for (let known = -1; known < order.shipmentIds.length; ) {
    known = order.shipmentIds.length;
    fulfilOrder(client, order, nowMs);
  }

  const waiting = client.listShipments(order).filter(({ status }) => status !== 'SHIPPED');
  for (const shipment of waiting) {
    if (shipment.visibleFromMs > nowMs) {
      shipment.visibleFromMs = nowMs;
      client.showShipment(shipment, nowMs);
    }
    moveShipment(client, nowMs, { shipmentId: shipment.id, path: ['SHIPPED'] });
  }

  if (waiting.length === 0 && !isFulfilled(order)) {
    const missing = 'goods are missing in the warehouses that offer its shipping method';
    throw cannotBeShipped(order, missing);
  }
  return waiting.length;
}

const cannotBeShipped = ({ externalOrderNumber }: Order, reason: string) =>
  ruleBroken(`Order ${externalOrderNumber} cannot be shipped: ${reason}`);

function findReasonToWait({ zone }: Client, order: Order, nowMs: number): string | null {
  const { onHold, notValid, preferredShippingDate: day } = order;
  if (onHold) return 'it is on hold';
  if (notValid) return 'its address has no house number';
  return day !== null && day > zone.day(nowMs) ? `it is to be shipped on ${day}` : null;
}
