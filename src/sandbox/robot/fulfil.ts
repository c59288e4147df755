import { dayMs, hourMs, minuteMs } from '../../core/time.ts';
import { ruleBroken } from '../refusal.ts';
import { isFulfilled } from '../rules/orders.ts';
import { addStock } from '../rules/products.ts';
import type {
  Order,
  OrderItem,
  Product,
  Shipment,
  ShipmentItem,
  ShipmentStatus,
  Track,
} from '../store/model.ts';
import type { Simulation, TaskOf } from '../store/simulation.ts';
import { planUnannouncedReturn } from './returns.ts';

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
export function fulfilOrder(simulation: Simulation, atMs: number, orderId: number): void {
  const order = simulation.store.orders.get(orderId);
  if (order === undefined || isHeldBack(simulation, order, atMs)) return;
  const lines = findOpenLines(simulation, order);
  const goods = lines.filter(({ product }) => !product.service);
  if (goods.length === 0) {
    completeServiceLines(lines);
    return;
  }
  const warehouseCodes = simulation.store.lists.findOfferingWarehouses(order.shippingMethodId);
  const preferred = simulation.random.chance(0.5) ? warehouseCodes : [...warehouseCodes].reverse();
  const picks: PickedGoods[] = [];
  for (const { item, product } of goods)
    for (const pick of pickGoods(order, item, product, preferred, picks)) picks.push(pick);
  const isWhole = goods.every(
    ({ item }) => countPicked(picks, item) === item.quantity - item.fulfilled,
  );
  if (!isWhole) simulation.waitingForStock.add(order.id);
  if (picks.length === 0 || (!isWhole && !order.allowPartialDelivery)) return;
  const leavingNow = order.allowPartialDelivery ? chooseFirstHalf(simulation, picks) : picks;
  if (leavingNow.length < picks.length) simulation.plan(atMs + hourMs, { kind: 'fulfil', orderId });
  completeServiceLines(lines);
  for (const warehouse of warehouseCodes) {
    const parcel = leavingNow.filter((pick) => pick.warehouse === warehouse);
    if (parcel.length > 0) shipGoods(simulation, order, parcel, atMs);
  }
}

/** Returns whether an order must wait. Plans to fulfil it on its preferred day. */
function isHeldBack(simulation: Simulation, order: Order, atMs: number): boolean {
  if (order.onHold || order.notValid) return true;
  const { preferredShippingDate } = order;
  if (preferredShippingDate === null || preferredShippingDate <= simulation.store.zone.day(atMs)) {
    simulation.waitingForDay.delete(order.id);
    return false;
  }
  if (simulation.waitingForDay.get(order.id) === preferredShippingDate) return true;
  simulation.waitingForDay.set(order.id, preferredShippingDate);
  simulation.plan(simulation.store.zone.atHour(preferredShippingDate, 6), {
    kind: 'fulfil',
    orderId: order.id,
  });
  return true;
}

function findOpenLines(
  simulation: Simulation,
  order: Order,
): { item: OrderItem; product: Product }[] {
  return order.items
    .filter(({ quantity, fulfilled }) => quantity > fulfilled)
    .map((item) => ({ item, product: simulation.store.products.get(item.sku) as Product }));
}

/** Marks service products as fulfilled: they need neither stock nor a parcel. */
function completeServiceLines(lines: readonly { item: OrderItem; product: Product }[]): void {
  for (const { item, product } of lines) if (product.service) item.fulfilled = item.quantity;
}

/**
 * Picks a line from the named warehouse if that may ship it, one that has it all, or several. Picks
 * of other lines are not available.
 */
function pickGoods(
  order: Order,
  item: OrderItem,
  product: Product,
  preferred: readonly string[],
  others: readonly PickedGoods[],
): PickedGoods[] {
  const wanted = item.quantity - item.fulfilled;
  const named = item.fulfillFrom ?? order.fulfillFrom;
  const choices = named === null ? preferred : preferred.filter((code) => code === named);
  const countAvailable = (code: string) => {
    const reserved = others.filter((pick) => pick.product === product && pick.warehouse === code);
    return (product.stock[code] ?? 0) - reserved.reduce((sum, { quantity }) => sum + quantity, 0);
  };
  const whole = choices.find((code) => countAvailable(code) >= wanted);
  let missing = wanted;
  return (whole === undefined ? choices : [whole]).flatMap((warehouse) => {
    const quantity = Math.min(missing, countAvailable(warehouse));
    missing -= quantity;
    return quantity > 0 ? [{ item, product, quantity, warehouse }] : [];
  });
}

function countPicked(picks: readonly PickedGoods[], item: OrderItem): number {
  return picks
    .filter((pick) => pick.item === item)
    .reduce((sum, { quantity }) => sum + quantity, 0);
}

/**
 * Returns the picks that leave now. For some orders this is only the first half; the rest leaves an
 * hour later.
 */
function chooseFirstHalf(
  simulation: Simulation,
  picks: readonly PickedGoods[],
): readonly PickedGoods[] {
  return picks.length > 1 && simulation.random.chance(0.2)
    ? picks.slice(0, Math.ceil(picks.length / 2))
    : picks;
}

function shipGoods(
  simulation: Simulation,
  order: Order,
  picks: readonly PickedGoods[],
  atMs: number,
): void {
  const { random, store } = simulation;
  const lateMs = random.chance(0.03) ? random.between(2, 30) * hourMs : 0;
  const items = picks.map((pick) => createShipmentItem(simulation, pick, atMs));
  for (const { item, quantity, warehouse } of picks) {
    item.fulfilled += quantity;
    addStock(simulation, item.sku, warehouse, -quantity);
  }
  const shipment = createShipment(
    simulation,
    order,
    items,
    picks[0]?.warehouse ?? '',
    atMs,
    atMs + lateMs,
  );
  store.addShipment(shipment, order);
  if (lateMs === 0) store.showShipment(shipment, atMs);
  else simulation.plan(atMs + lateMs, { kind: 'show', shipmentId: shipment.id });
  const path: ShipmentStatus[] = random.chance(0.5)
    ? ['READY_TO_SORT', 'READY_TO_SHIP']
    : ['READY_TO_SHIP'];
  if (random.chance(0.04)) path.unshift('ERROR');
  // Most shipments move only when they are visible. With late changes, some move before.
  const isUnseen = simulation.options.lateChanges && lateMs > 0 && random.chance(0.4);
  planMove(simulation, shipment, [...path, 'SHIPPED'], isUnseen ? atMs : atMs + lateMs);
}

/** Creates a shipment that waits for the warehouse. The ids of its items must be drawn before. */
export function createShipment(
  simulation: Simulation,
  order: Order,
  items: readonly ShipmentItem[],
  warehouseCode: string,
  atMs: number,
  visibleFromMs: number,
): Shipment {
  return {
    id: simulation.ids.next(),
    status: 'READY_TO_PICK',
    readyToPickOnMs: simulation.store.zone.skipRepeatedHour(atMs),
    readyToShipOnMs: null,
    shippedOnMs: null,
    warehouseCode,
    returnLabel: null,
    orderId: order.id,
    orderTypeId: order.orderTypeId,
    shippingMethodId: order.shippingMethodId ?? simulation.store.lists.usualMethodId,
    items,
    tracks: [],
    visibleFromMs,
  };
}

/** Creates an item of a shipment. */
export function createShipmentItem(
  simulation: Simulation,
  { item, product, quantity }: Omit<PickedGoods, 'warehouse'>,
  atMs: number,
): ShipmentItem {
  const { random } = simulation;
  const serials = product.keeping === 'serials' ? quantity : 0;
  return {
    id: simulation.ids.next(),
    sku: item.sku,
    quantity,
    ...drawLot(simulation, product, atMs),
    serialNumbers: Array.from({ length: serials }, () => `SN${random.between(10_000, 99_999)}`),
    orderItemId: item.id,
    productId: item.productId,
    returned: 0,
  };
}

/**
 * Draws the lot of goods, which expires one to three years after `atMs`. Most products have none.
 */
export function drawLot({ random, store }: Simulation, product: Product | undefined, atMs: number) {
  if (product?.keeping !== 'lots') return { lotNumber: null, expirationDate: null };
  return {
    lotNumber: `LOT${random.between(100, 999)}`,
    expirationDate: store.zone.day(atMs + random.between(365, 1_095) * dayMs),
  };
}

/** Moves a shipment to the next state and plans the move after it. */
export function moveShipment(
  simulation: Simulation,
  atMs: number,
  { shipmentId, path: [status, ...rest] }: Omit<TaskOf<'move'>, 'kind'>,
): void {
  const shipment = simulation.store.shipments.get(shipmentId);
  // `/_sandbox/edit` may have set the state in the meantime.
  if (shipment === undefined || status === undefined || shipment.status === 'SHIPPED') return;
  simulation.store.setStatus(shipment, status, atMs);
  planMove(simulation, shipment, rest, atMs);
  if (status !== 'SHIPPED') return;
  startTracking(simulation, shipment, atMs);
  planUnannouncedReturn(simulation, shipment, atMs);
  if (simulation.options.lateChanges && simulation.random.chance(0.03))
    simulation.plan(atMs + simulation.random.between(1, 20) * dayMs, { kind: 'amend', shipmentId });
}

/**
 * Changes details of a shipment after the carrier has taken it (docs/interface.md, 10.3 States).
 */
export function amendShipment(
  simulation: Simulation,
  _atMs: number,
  { shipmentId }: TaskOf<'amend'>,
): void {
  const shipment = simulation.store.shipments.get(shipmentId);
  if (shipment === undefined) return;
  shipment.returnLabel = `RL${simulation.random.between(100_000, 999_999)}`;
  const [first] = shipment.items;
  if (first?.lotNumber) first.lotNumber = `LOT${simulation.random.between(100, 999)}`;
}

function planMove(
  simulation: Simulation,
  shipment: Shipment,
  path: readonly ShipmentStatus[],
  fromMs: number,
): void {
  if (path.length === 0) return;
  // A person must resolve ERROR, which takes days rather than hours.
  const { random } = simulation;
  const waitMs =
    shipment.status === 'ERROR'
      ? random.between(24, 72) * hourMs
      : random.between(20, 300) * minuteMs;
  simulation.plan(fromMs + waitMs, { kind: 'move', shipmentId: shipment.id, path });
}

/**
 * Ships at once all of an order that can be shipped, and counts the shipments. Refuses an order
 * that must wait.
 */
export function finishOrder(simulation: Simulation, order: Order, nowMs: number): number {
  const { store } = simulation;
  const reason = findReasonToWait(simulation, order, nowMs);
  if (reason !== null)
    throw ruleBroken(`Order ${order.externalOrderNumber} cannot be shipped: ${reason}`);
  // An order may leave in several steps.
  for (let known = -1; known < order.shipmentIds.length; ) {
    known = order.shipmentIds.length;
    fulfilOrder(simulation, nowMs, order.id);
  }
  const waiting = store.listShipments(order).filter(({ status }) => status !== 'SHIPPED');
  for (const shipment of waiting) {
    if (shipment.visibleFromMs > nowMs) {
      shipment.visibleFromMs = nowMs;
      store.showShipment(shipment, nowMs);
    }
    moveShipment(simulation, nowMs, { shipmentId: shipment.id, path: ['SHIPPED'] });
  }
  if (waiting.length === 0 && !isFulfilled(order))
    throw ruleBroken(
      `Order ${order.externalOrderNumber} cannot be shipped: ` +
        'goods are missing in the warehouses that offer its shipping method',
    );
  return waiting.length;
}

function findReasonToWait({ store }: Simulation, order: Order, nowMs: number): string | null {
  if (order.onHold) return 'it is on hold';
  if (order.notValid) return 'its address has no house number';
  const { preferredShippingDate } = order;
  return preferredShippingDate !== null && preferredShippingDate > store.zone.day(nowMs)
    ? `it is to be shipped on ${preferredShippingDate}`
    : null;
}

/** Track-trace codes of the sandbox. docs/interface.md shows none; docs/sandbox.md lists these. */
const [handedOver, sorted, outForDelivery, notAtHome] = [10, 20, 30, 35] as const;
/** Codes that end the delivery: the track-trace list no longer shows the package. */
const [atPickUpPoint, delivered, returnedToSender] = [40, 50, 60] as const;
const finalCodes = new Set<number>([atPickUpPoint, delivered, returnedToSender]);
/** A shipment is tracked for this long at most, because some packages get no final code. */
const maxTrackingMs = 30 * dayMs;

/** Hands a shipment over to a carrier and plans the reports about its packages. */
function startTracking(simulation: Simulation, shipment: Shipment, atMs: number): void {
  const { random } = simulation;
  const packages = random.chance(0.12) ? 2 : 1;
  const whenMs = simulation.store.zone.skipRepeatedHour(atMs);
  shipment.tracks = Array.from({ length: packages }, (_, index) => ({
    packageNumber: random.chance(0.03) ? null : toPackageNumber(shipment, index),
    status: handedOver,
    statusOnMs: random.chance(0.05) ? null : whenMs,
    exceptionLevel: 0,
  }));
  simulation.store.inDelivery.add(shipment);
  const task = { kind: 'track', shipmentId: shipment.id } as const;
  for (let index = 0; index < packages; index++)
    planTrack(simulation, { ...task, index, path: drawPath(simulation) }, atMs);
  simulation.plan(atMs + maxTrackingMs, { ...task, index: -1, path: [] });
}

/** Returns the number of a package. Packages of a shipment count from 0. */
function toPackageNumber({ id }: Shipment, index: number): string {
  return `3S${String(id).padStart(9, '0')}${index + 1}`;
}

/** Returns the numbers of the packages of a shipment. Returns none before it is SHIPPED. */
export function listPackageNumbers(shipment: Shipment): string[] {
  if (shipment.status !== 'SHIPPED') return [];
  const count = Math.max(1, shipment.tracks.length);
  return Array.from({ length: count }, (_, index) => toPackageNumber(shipment, index));
}

/**
 * Returns the address at which a customer follows a package. docs/interface.md does not show it.
 */
export const toTrackingUrl = (packageNumber: string): string =>
  `https://carrier.example/track/${packageNumber}`;

/** Returns whether a package is still on its way. */
export function isInDelivery({ status }: Track): boolean {
  return !finalCodes.has(status);
}

/**
 * Records the next code of a package and plans the one after it. Index -1 ends the tracking of the
 * shipment.
 */
export function updateTrack(simulation: Simulation, atMs: number, task: TaskOf<'track'>): void {
  const { shipmentId, index, path } = task;
  const [status, ...rest] = path;
  const shipment = simulation.store.shipments.get(shipmentId);
  if (shipment === undefined) return;
  const track = shipment.tracks[index];
  if (track !== undefined && status !== undefined) {
    const { random } = simulation;
    track.status = status;
    track.statusOnMs = random.chance(0.05)
      ? null
      : simulation.store.zone.skipRepeatedHour(random.chance(0.03) ? atMs - 2 * dayMs : atMs);
    track.exceptionLevel = status === notAtHome ? 1 : random.chance(0.04) ? null : 0;
    planTrack(simulation, { ...task, path: rest }, atMs);
  }
  if (track === undefined || !shipment.tracks.some(isInDelivery))
    simulation.store.inDelivery.delete(shipmentId);
}

function planTrack(simulation: Simulation, task: TaskOf<'track'>, fromMs: number): void {
  if (task.path.length > 0)
    simulation.plan(fromMs + simulation.random.between(2, 14) * hourMs, task);
}

function drawPath({ random }: Simulation): number[] {
  const start = [sorted, outForDelivery];
  // The package is lost: no further reports.
  if (random.chance(0.01)) return start;
  // The scans are reported in the wrong order.
  if (random.chance(0.03)) return [outForDelivery, sorted, delivered];
  if (random.chance(0.08))
    return [...start, notAtHome, random.chance(0.5) ? atPickUpPoint : delivered];
  if (random.chance(0.02)) return [...start, notAtHome, notAtHome, returnedToSender];
  return [...start, delivered];
}
