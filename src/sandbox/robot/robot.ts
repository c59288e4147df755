/** The robot that picks, ships, receives and returns goods. The same seed gives the same events. */

import type { Simulation, Task } from '../store/simulation.ts';
import { amendShipment, fulfilOrder, moveShipment, updateTrack } from './fulfil.ts';
import { checkInbound, completeInbound, countInbound, planUnannouncedTruck, unloadTruck } from './inbounds.ts';
import { processReturn, receiveReturn, restockItem } from './returns.ts';
import { planOrder, takeOrder } from './shop.ts';

/** Plans the first tasks of a client. */
export function planFirstDay(simulation: Simulation, startMs: number): void {
  planOrder(simulation, startMs);
  if (simulation.options.ordersPerDay > 0) planUnannouncedTruck(simulation, startMs);
}

/** Simulates a client up to a moment. What happens does not depend on the steps in which time advances. */
export function simulateUntil(simulation: Simulation, nowMs: number): void {
  for (let step = simulation.agenda.peek(); step !== undefined && step.atMs <= nowMs; step = simulation.agenda.peek()) {
    simulation.agenda.pop();
    performTask(simulation, step.atMs, step.task);
  }
}

type TaskOfKind<Kind extends Task['kind']> = Extract<Task, { readonly kind: Kind }>;

const performers: {
  readonly [Kind in Task['kind']]: (simulation: Simulation, atMs: number, task: TaskOfKind<Kind>) => void;
} = {
  'take-order': (simulation, atMs) => takeOrder(simulation, atMs),
  fulfil: (simulation, atMs, { orderId }) => fulfilOrder(simulation, atMs, orderId),
  show: (simulation, atMs, { shipmentId }) => makeShipmentVisible(simulation, atMs, shipmentId),
  move: (simulation, atMs, { shipmentId, path }) => moveShipment(simulation, atMs, shipmentId, path),
  amend: (simulation, _atMs, { shipmentId }) => amendShipment(simulation, shipmentId),
  track: (simulation, atMs, { shipmentId, index, path }) => updateTrack(simulation, atMs, shipmentId, index, path),
  'send-back': (simulation, atMs, { shipmentId, authorizationId }) =>
    receiveReturn(simulation, atMs, shipmentId, authorizationId),
  'process-return': (simulation, atMs, { returnItemId }) => processReturn(simulation, atMs, returnItemId),
  restock: (simulation, atMs, { returnItemId }) => restockItem(simulation, atMs, returnItemId),
  truck: (simulation, atMs, { slipId, isLast }) => {
    unloadTruck(simulation, atMs, slipId, isLast);
    if (slipId === null) planUnannouncedTruck(simulation, atMs);
  },
  'check-inbound': (simulation, atMs, { inboundId }) => checkInbound(simulation, atMs, inboundId),
  'count-inbound': (simulation, atMs, { inboundId, lines }) => countInbound(simulation, atMs, inboundId, lines),
  'complete-inbound': (simulation, atMs, { inboundId, isLast }) => completeInbound(simulation, atMs, inboundId, isLast),
};

function performTask<Kind extends Task['kind']>(
  simulation: Simulation,
  atMs: number,
  task: TaskOfKind<Kind> & { readonly kind: Kind },
): void {
  performers[task.kind](simulation, atMs, task);
}

function makeShipmentVisible(simulation: Simulation, atMs: number, shipmentId: number): void {
  const shipment = simulation.store.shipments.get(shipmentId);
  if (shipment !== undefined) simulation.store.showShipment(shipment, atMs);
}
