import { minuteMs } from '../../core/time.ts';
import { ruleBroken } from '../refusal.ts';
import type { ChangeableOrder, ChangeableRelationships, Order, OrderItem } from '../store/model.ts';
import type { Simulation } from '../store/simulation.ts';
import { fillHouseNumber, isHouseNumberMissing } from './house-number.ts';
import { checkOrderNumber, checkOrderSettings, checkWarehouse } from './place-order.ts';

/** Returns whether nothing of an order remains to be shipped. */
export function isFulfilled(order: Order): boolean {
  return order.items.every(({ quantity, fulfilled }) => fulfilled >= quantity);
}

/** Places of the relationships of an update, for errors. */
const relationshipPointers = {
  orderType: '/data/relationships/orderType',
  shippingMethod: '/data/relationships/preferredShippingMethod',
};

/**
 * Changes an order (docs/interface.md, 7.7 Update).
 * @throws Refusal if the order is completely fulfilled, or if a value is not accepted
 */
export function changeOrder(
  simulation: Simulation,
  order: Order,
  wanted: ChangeableOrder & ChangeableRelationships,
  nowMs: number,
): void {
  const toPointer = (member: string) => `/data/attributes/${member}`;
  if (isFulfilled(order)) throw ruleBroken('The order is completely fulfilled and cannot be changed any more', '/data');
  checkOrderNumber(simulation, wanted.externalOrderNumber, order, toPointer('externalOrderNumber'));
  checkWarehouse(simulation.store.settings, wanted.fulfillFrom, toPointer('fulfillFrom'));
  const { preferredShippingDate } = wanted;
  if (preferredShippingDate !== null && preferredShippingDate < simulation.store.zone.day(nowMs))
    throw ruleBroken('preferredShippingDate must be today or later', toPointer('preferredShippingDate'));
  checkOrderSettings(simulation.store.settings, wanted, relationshipPointers);
  const deliveryAddress = fillHouseNumber(wanted.deliveryAddress);
  const addresses = { deliveryAddress, billingAddress: fillHouseNumber(wanted.billingAddress) };
  const notValid = isHouseNumberMissing(deliveryAddress);
  simulation.store.changeOrder(order, () => Object.assign(order, wanted, addresses, { notValid }));
  planFulfilment(simulation, order, nowMs);
}

/** Plans to fulfil an order, because the reason why it waited may have ended. */
function planFulfilment(simulation: Simulation, order: Order, nowMs: number): void {
  simulation.plan(nowMs + simulation.random.between(5, 60) * minuteMs, { kind: 'fulfil', orderId: order.id });
}

/**
 * Cancels the quantities of items that are in no shipment yet (docs/interface.md, 7.3 States). Returns the items that
 * changed.
 */
export function cancelItems(
  simulation: Simulation,
  order: Order,
  items: readonly OrderItem[],
  nowMs: number,
): readonly OrderItem[] {
  const changed = items.filter(({ quantity, fulfilled }) => quantity > fulfilled);
  simulation.store.changeOrder(order, () => {
    for (const item of changed) item.quantity = item.fulfilled;
  });
  // The order may have waited only for what is now cancelled.
  if (changed.length > 0) planFulfilment(simulation, order, nowMs);
  return changed;
}

/**
 * Releases an order that is on hold.
 * @throws Refusal if the order is not on hold
 */
export function releaseOrder(simulation: Simulation, order: Order, nowMs: number): void {
  if (!order.onHold) throw ruleBroken(`Order ${order.externalOrderNumber} is not on hold`);
  simulation.store.changeOrder(order, () => {
    order.onHold = false;
  });
  planFulfilment(simulation, order, nowMs);
}

/** Adds the missing house number of an order. No operation of docs/interface.md does this. */
export function addHouseNumber(simulation: Simulation, order: Order, houseNumber: string, nowMs: number): void {
  order.deliveryAddress = { ...order.deliveryAddress, houseNumber };
  order.notValid = isHouseNumberMissing(order.deliveryAddress);
  planFulfilment(simulation, order, nowMs);
}
