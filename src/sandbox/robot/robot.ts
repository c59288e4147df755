/**
 * The robot that picks, ships, receives and returns. The same seed gives the same days.
 */

import type { Life, Task } from '../store/life.ts';
import { track } from './carrier.ts';
import { amend, fulfil, move } from './fulfil.ts';
import { checkInbound, completeInbound, countInbound, planSurprise, unload } from './inbounds.ts';
import { processReturn, receiveReturn, restock } from './returns.ts';
import { planOrder, takeOrder } from './shop.ts';

/** Plans a client's first day. */
export function begin(life: Life, startMs: number): void {
  planOrder(life, startMs);
  if (life.habits.ordersPerDay > 0) planSurprise(life, startMs);
}

/**
 * Plays shop, warehouse and carriers in virtual time, up to `nowMs`: orders leave in one or several shipments, which move
 * on, some by way of ERROR, some visible late; returns come back, slips are received in parts. What happens depends on the
 * seed, on what was asked of the service, and on the moments themselves, not on the spans in which time is advanced.
 */
export function liveUntil(life: Life, nowMs: number): void {
  for (let step = life.agenda.peek(); step !== undefined && step.atMs <= nowMs; step = life.agenda.peek()) {
    life.agenda.pop();
    perform(life, step.atMs, step.task);
  }
}

type TaskOf<Kind extends Task['kind']> = Extract<Task, { readonly kind: Kind }>;

const performers: { readonly [Kind in Task['kind']]: (life: Life, atMs: number, task: TaskOf<Kind>) => void } = {
  'take-order': (life, atMs) => takeOrder(life, atMs),
  fulfil: (life, atMs, { orderId }) => fulfil(life, atMs, orderId),
  show: (life, atMs, { shipmentId }) => show(life, atMs, shipmentId),
  move: (life, atMs, { shipmentId, path }) => move(life, atMs, shipmentId, path),
  amend: (life, _atMs, { shipmentId }) => amend(life, shipmentId),
  track: (life, atMs, { shipmentId, index, path }) => track(life, atMs, shipmentId, index, path),
  'send-back': (life, atMs, { shipmentId, authorizationId }) => receiveReturn(life, atMs, shipmentId, authorizationId),
  'process-return': (life, atMs, { returnItemId }) => processReturn(life, atMs, returnItemId),
  restock: (life, atMs, { returnItemId }) => restock(life, atMs, returnItemId),
  truck: (life, atMs, { slipId, isLast }) => {
    unload(life, atMs, slipId, isLast);
    if (slipId === null) planSurprise(life, atMs);
  },
  'check-inbound': (life, atMs, { inboundId }) => checkInbound(life, atMs, inboundId),
  'count-inbound': (life, atMs, { inboundId, lines }) => countInbound(life, atMs, inboundId, lines),
  'complete-inbound': (life, atMs, { inboundId, isLast }) => completeInbound(life, atMs, inboundId, isLast),
};

function perform<Kind extends Task['kind']>(
  life: Life,
  atMs: number,
  task: TaskOf<Kind> & { readonly kind: Kind },
): void {
  performers[task.kind](life, atMs, task);
}

function show(life: Life, atMs: number, shipmentId: number): void {
  const shipment = life.store.shipments.get(shipmentId);
  if (shipment !== undefined) life.store.showShipment(shipment, atMs);
}
