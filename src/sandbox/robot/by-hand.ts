import { ruleBroken } from '../refusal.ts';
import type { Authorization, Order, ReturnItem } from '../store/model.ts';
import type { Simulation } from '../store/simulation.ts';
import { fulfilOrder, moveShipment } from './fulfil.ts';
import { processReturn, receiveReturn } from './returns.ts';

/**
 * Ships all of an order that can be shipped now, without the hours that the warehouse needs.
 * @returns the number of shipments that became SHIPPED
 * @throws Refusal if the order must wait, with the reason
 */
export function finishOrder(simulation: Simulation, order: Order, nowMs: number): number {
  const { store } = simulation;
  const reason = findReasonToWait(simulation, order, nowMs);
  if (reason !== null) throw ruleBroken(`Order ${order.externalOrderNumber} cannot be shipped: ${reason}`);
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
    moveShipment(simulation, nowMs, shipment.id, ['SHIPPED']);
  }
  if (waiting.length === 0 && order.items.some(({ quantity, fulfilled }) => quantity > fulfilled))
    throw ruleBroken(`Order ${order.externalOrderNumber} cannot be shipped: goods are missing in the warehouses`);
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

/**
 * Receives an announced return, unless it has arrived already, and processes its items.
 * @returns the processed items
 * @throws Refusal if there is nothing to process
 */
export function finishReturn(simulation: Simulation, authorization: Authorization, nowMs: number): ReturnItem[] {
  const { store } = simulation;
  const listItems = () => [...store.returnItems].filter((row) => row.authorizationId === authorization.id);
  if (store.shipments.get(authorization.shipmentId)?.status !== 'SHIPPED')
    throw ruleBroken(`Shipment ${authorization.shipmentId} has not been shipped, so nothing of it can come back`);
  if (listItems().length === 0) receiveReturn(simulation, nowMs, authorization.shipmentId, authorization.id);
  const items = listItems().filter(({ processedOn }) => processedOn === null);
  if (items.length === 0)
    throw ruleBroken(`Return ${authorization.id} was processed before, or nothing of it is left to come back`);
  for (const { id } of items) processReturn(simulation, nowMs, id);
  return items;
}
