/** The robot that picks, ships, receives and returns goods. The same seed gives the same events. */

import type { Client, Task, TaskOf } from '../store/client.ts';
import { checkInbound, completeInbound, countInbound, planTruck, unloadTruck } from './inbounds.ts';
import { processReturn, receiveReturn, restockItem } from './returns.ts';
import { amendShipment, fulfilOrder, moveShipment } from './shipments.ts';
import { planOrder, takeOrder } from './shop.ts';
import { updateTrack } from './tracking.ts';

/** Plans the first tasks of a client. */
export function planFirstDay(client: Client, startMs: number): void {
  planOrder(client, startMs);
  if (client.options.ordersPerDay > 0) planTruck(client, startMs);
}

/**
 * Simulates a client up to a moment. What happens does not depend on the steps in which time
 * advances.
 */
export function simulateUntil(client: Client, nowMs: number): void {
  for (;;) {
    const planned = client.takeTask(nowMs);
    if (planned === undefined) return;

    const perform: (client: Client, atMs: number, task: never) => void =
      performers[planned.task.kind];
    perform(client, planned.atMs, planned.task as never);
  }
}

const performers: {
  readonly [Kind in Task['kind']]: (client: Client, atMs: number, task: TaskOf<Kind>) => void;
} = {
  'take-order': takeOrder,
  fulfil: (client, atMs, { orderId }) => {
    const order = client.orders.get(orderId);
    if (order !== undefined) fulfilOrder(client, order, atMs);
  },
  show: (client, atMs, { shipmentId }) => {
    const shipment = client.shipments.get(shipmentId);
    if (shipment !== undefined) client.showShipment(shipment, atMs);
  },
  move: moveShipment,
  amend: amendShipment,
  track: updateTrack,
  'send-back': receiveReturn,
  'process-return': processReturn,
  restock: restockItem,
  truck: unloadTruck,
  'check-inbound': checkInbound,
  'count-inbound': countInbound,
  'complete-inbound': completeInbound,
};
