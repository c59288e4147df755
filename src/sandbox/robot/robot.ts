/** The robot that picks, ships, receives and returns goods. The same seed gives the same events. */

import type { Simulation, Task, TaskOf } from '../store/simulation.ts';
import { amendShipment, fulfilOrder, moveShipment, updateTrack } from './fulfil.ts';
import {
  checkInbound,
  completeInbound,
  countInbound,
  planUnannouncedTruck,
  unloadTruck,
} from './inbounds.ts';
import { processReturn, receiveReturn, restockItem } from './returns.ts';
import { planOrder, takeOrder } from './shop.ts';

/** Plans the first tasks of a client. */
export function planFirstDay(simulation: Simulation, startMs: number): void {
  planOrder(simulation, startMs);
  if (simulation.options.ordersPerDay > 0) planUnannouncedTruck(simulation, startMs);
}

/**
 * Simulates a client up to a moment. What happens does not depend on the steps in which time
 * advances.
 */
export function simulateUntil(simulation: Simulation, nowMs: number): void {
  for (
    let step = simulation.agenda.take(nowMs);
    step !== undefined;
    step = simulation.agenda.take(nowMs)
  ) {
    const perform = performers[step.task.kind] as (
      simulation: Simulation,
      atMs: number,
      task: Task,
    ) => void;
    perform(simulation, step.atMs, step.task);
  }
}

const performers: {
  readonly [Kind in Task['kind']]: (
    simulation: Simulation,
    atMs: number,
    task: TaskOf<Kind>,
  ) => void;
} = {
  'take-order': takeOrder,
  fulfil: (simulation, atMs, { orderId }) => fulfilOrder(simulation, atMs, orderId),
  show: ({ store }, atMs, { shipmentId }) => {
    const shipment = store.shipments.get(shipmentId);
    if (shipment !== undefined) store.showShipment(shipment, atMs);
  },
  move: moveShipment,
  amend: amendShipment,
  track: updateTrack,
  'send-back': receiveReturn,
  'process-return': processReturn,
  restock: restockItem,
  truck: (simulation, atMs, task) => {
    unloadTruck(simulation, atMs, task);
    if (task.slipId === null) planUnannouncedTruck(simulation, atMs);
  },
  'check-inbound': checkInbound,
  'count-inbound': countInbound,
  'complete-inbound': completeInbound,
};
