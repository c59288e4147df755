import { dayMs, hourMs, minuteMs } from '../../core/time.ts';
import { ruleBroken } from '../refusal.ts';
import { isFulfilled, toRobotPrefix } from '../rules/orders.ts';
import { addStock } from '../rules/products.ts';
import type { Client, Performers, TaskOf } from '../store/client.ts';
import type { Order, OrderItem, Product, Shipment, ShipmentItem, Track } from '../store/model.ts';
import { planUnannouncedReturn } from './returns.ts';

/** Track-trace codes of the sandbox. docs/interface.md shows none; docs/sandbox.md lists these. */
const [handedOver, sorted, outForDelivery, notAtHome] = [10, 20, 30, 35] as const;
/** Codes that end the delivery: the track-trace list no longer shows the package. */
const [atPickUpPoint, delivered, returnedToSender] = [40, 50, 60] as const;
/** A shipment is tracked for this long at most, because some packages get no final code. */
const maxTrackingMs = 30 * dayMs;

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
function fulfilOrder(client: Client, order: Order | undefined, atMs: number): void {
  if (order === undefined || isHeldBack(client, order, atMs)) return;

  const open = order.items.filter(({ quantity, fulfilled }) => quantity > fulfilled);
  const isService = ({ sku }: OrderItem) => client.products.get(sku)?.service === true;
  const goods = open.filter((item) => !isService(item));
  const { picks, isWhole } = pickGoods(client, order, goods);
  if (!isWhole) client.waitingForStock.add(order.id);
  if (goods.length > 0 && (picks.length === 0 || !(isWhole || order.allowPartialDelivery))) return;

  // Of some orders only the first half leaves now, and the rest an hour later.
  const isDivided = order.allowPartialDelivery && picks.length > 1 && client.random.chance(0.2);
  const leaving = isDivided ? picks.slice(0, Math.ceil(picks.length / 2)) : picks;
  if (isDivided) client.plan(atMs + hourMs, { kind: 'fulfil', orderId: order.id });

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
  if (day !== null && day > client.zone.day(atMs))
    client.plan(client.zone.atHour(day, 6), { kind: 'fulfil', orderId });
  return findReasonToWait(client, order, atMs) !== null;
}

/**
 * Picks each line from the warehouse that it names, from one that has it all, or from the one that
 * has most. Returns also whether nothing is missing.
 */
function pickGoods(client: Client, order: Order, goods: readonly OrderItem[]) {
  const picks: PickedGoods[] = [];
  const offering = client.lists.findOfferingWarehouses(order.shippingMethodId);
  const preferred = client.random.chance(0.5) ? offering : offering.toReversed();
  let isWhole = true;

  for (const item of goods) {
    const product = client.products.get(item.sku) as Product;
    const countAvailable = (code: string) =>
      picks
        .filter((pick) => pick.product === product && pick.warehouse === code)
        .reduce((left, { quantity }) => left - quantity, product.stock[code] ?? 0);

    const missing = item.quantity - item.fulfilled;
    const named = item.fulfillFrom ?? order.fulfillFrom;
    const [warehouse = ''] = preferred
      .filter((code) => named === null || code === named)
      .sort(
        (left, right) =>
          Math.min(missing, countAvailable(right)) - Math.min(missing, countAvailable(left)),
      );
    const quantity = Math.min(missing, countAvailable(warehouse));
    if (quantity > 0) picks.push({ item, product, quantity, warehouse });
    if (quantity < missing) isWhole = false;
  }

  return { picks, isWhole };
}

function shipGoods(
  client: Client,
  order: Order,
  picks: readonly PickedGoods[],
  atMs: number,
): void {
  const { random } = client;
  // Some shipments become visible late, when newer ones have been: those of the robot's own orders,
  // because somebody waits for the others.
  const drawnMs = random.chance(0.03) ? random.between(2, 30) * hourMs : 0;
  const lateMs = order.externalOrderNumber.startsWith(toRobotPrefix(client)) ? drawnMs : 0;
  const visibleFromMs = atMs + lateMs;
  const warehouseCode = picks[0]?.warehouse ?? '';
  const shipment = addShipment(client, order, picks, { warehouseCode, atMs, visibleFromMs });
  for (const { item, quantity, warehouse } of picks) {
    item.fulfilled += quantity;
    addStock(client, item.sku, warehouse, -quantity);
  }

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

export const shipmentTasks = {
  fulfil: (client, atMs, { orderId }) => fulfilOrder(client, client.orders.get(orderId), atMs),

  /** Moves a shipment to the next state and plans the move after it. */
  move: (client, atMs, { shipmentId, path: [status, ...rest] }) => {
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
  },

  /**
   * Changes details of a shipment after the carrier has taken it (docs/interface.md, 10.3 States).
   */
  amend: (client, _atMs, { shipmentId }) => {
    const shipment = client.shipments.get(shipmentId);
    if (shipment === undefined) return;

    shipment.returnLabel = `RL${client.random.between(100_000, 999_999)}`;
    const [first] = shipment.items;
    if (first?.lotNumber) first.lotNumber = drawLotNumber(client);
  },

  track: updateTrack,
} satisfies Partial<Performers>;

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
    shipment.visibleFromMs = Math.min(shipment.visibleFromMs, nowMs);
    shipmentTasks.move(client, nowMs, { kind: 'move', shipmentId: shipment.id, path: ['SHIPPED'] });
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

/** Hands a shipment over to a carrier and plans the reports about its packages. */
function startTracking(client: Client, shipment: Shipment, atMs: number): void {
  const { random } = client;
  const packages = random.chance(0.12) ? 2 : 1;
  const whenMs = client.zone.skipRepeatedHour(atMs);
  shipment.tracks = Array.from({ length: packages }, (_, index) => ({
    packageNumber: random.chance(0.03) ? null : toPackageNumber(shipment, index),
    status: handedOver,
    statusOnMs: random.chance(0.05) ? null : whenMs,
    exceptionLevel: 0,
  }));

  const task = { kind: 'track', shipmentId: shipment.id } as const;
  for (let index = 0; index < packages; index++)
    planTrack(client, { ...task, index, path: drawPath(client) }, atMs);
}

/** Returns the number of a package. Packages of a shipment count from 0. */
const toPackageNumber = ({ id }: Shipment, index: number): string =>
  `3S${String(id).padStart(9, '0')}${index + 1}`;

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
export const isInDelivery = ({ status }: Track): boolean => status < atPickUpPoint;

/** Returns whether the track-trace list shows a shipment. */
export const isTracked = ({ tracks, shippedOnMs }: Shipment, nowMs: number): boolean =>
  tracks.some(isInDelivery) && nowMs < (shippedOnMs ?? 0) + maxTrackingMs;

/** Records the next code of a package and plans the one after it. */
function updateTrack(client: Client, atMs: number, task: TaskOf<'track'>): void {
  const [status, ...path] = task.path;
  const track = client.shipments.get(task.shipmentId)?.tracks[task.index];
  if (track === undefined || status === undefined) return;

  const { random, zone } = client;
  const isTimeLess = random.chance(0.05);
  const atScanMs = !isTimeLess && random.chance(0.03) ? atMs - 2 * dayMs : atMs;
  track.status = status;
  track.statusOnMs = isTimeLess ? null : zone.skipRepeatedHour(atScanMs);
  track.exceptionLevel = status === notAtHome ? 1 : drawLevel(client);
  planTrack(client, { ...task, path }, atMs);
}

const drawLevel = ({ random }: Client) => (random.chance(0.04) ? null : 0);

function planTrack(client: Client, task: TaskOf<'track'>, fromMs: number): void {
  if (task.path.length > 0) client.plan(fromMs + client.random.between(2, 14) * hourMs, task);
}

function drawPath({ random }: Client): number[] {
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
