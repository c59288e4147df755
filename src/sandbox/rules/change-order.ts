import { minuteMs } from '../../core/time.ts';
import { ruleBroken } from '../refusal.ts';
import type { Life } from '../store/life.ts';
import type { ChangeableOrder, Order, OrderItem } from '../store/model.ts';
import { isHouseNumberMissing } from './house-number.ts';
import { checkNumber, checkWarehouse } from './place-order.ts';

/** Whether nothing of an order remains to ship. */
export function isFulfilled(order: Order): boolean {
  return order.items.every(({ quantity, fulfilled }) => fulfilled >= quantity);
}

/**
 * Puts an order into the wanted state (interface.md, Update order).
 * @throws Refusal where the order is completely fulfilled, or a value is not accepted
 */
export function changeOrder(life: Life, order: Order, wanted: ChangeableOrder, nowMs: number): void {
  const at = (member: string) => `/data/attributes/${member}`;
  if (isFulfilled(order)) throw ruleBroken('The order is completely fulfilled and cannot be changed any more', '/data');
  checkNumber(life, wanted.externalOrderNumber, order, at('externalOrderNumber'));
  checkWarehouse(wanted.fulfillFrom, at('fulfillFrom'));
  const { preferredShippingDate } = wanted;
  if (preferredShippingDate !== null && preferredShippingDate < life.store.zone.day(nowMs))
    throw ruleBroken('preferredShippingDate must be today or later', at('preferredShippingDate'));
  life.store.changeOrder(order, () => Object.assign(order, wanted));
  planFulfilment(life, order, nowMs);
}

/** Whatever held the order back may be gone. */
function planFulfilment(life: Life, order: Order, nowMs: number): void {
  life.plan(nowMs + life.random.between(5, 60) * minuteMs, { kind: 'fulfil', orderId: order.id });
}

/**
 * Cancels what is in no shipment yet, of some items of an order. Returns those that changed.
 * (interface.md, States and transitions: open, partly and completely fulfilled.)
 */
export function cancelItems(
  life: Life,
  order: Order,
  items: readonly OrderItem[],
  nowMs: number,
): readonly OrderItem[] {
  const changed = items.filter(({ quantity, fulfilled }) => quantity > fulfilled);
  life.store.changeOrder(order, () => {
    for (const item of changed) item.quantity = item.fulfilled;
  });
  // What it was waiting for may be what was cancelled.
  if (changed.length > 0) planFulfilment(life, order, nowMs);
  return changed;
}

/** @throws Refusal where the order is not on hold */
export function releaseOrder(life: Life, order: Order, nowMs: number): void {
  if (!order.onHold) throw ruleBroken(`Order ${order.externalOrderNumber} is not on hold`);
  life.store.changeOrder(order, () => {
    order.onHold = false;
  });
  planFulfilment(life, order, nowMs);
}

/** Adds the house number that an order waits for. The interface shows no call for it. */
export function addHouseNumber(life: Life, order: Order, houseNumber: string, nowMs: number): void {
  order.deliveryAddress = { ...order.deliveryAddress, houseNumber };
  order.notValid = isHouseNumberMissing(order.deliveryAddress);
  planFulfilment(life, order, nowMs);
}
