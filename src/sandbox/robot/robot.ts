/** The robot that picks, ships, receives and returns goods. The same seed gives the same events. */

import type { Client, Performers } from '../store/client.ts';
import { inboundTasks, planTruck } from './inbounds.ts';
import { returnTasks } from './returns.ts';
import { shipmentTasks } from './shipments.ts';
import { planOrder, shopTasks } from './shop.ts';

/** Plans the first tasks of a client. */
export function planFirstDay(client: Client, startMs: number): void {
  planOrder(client, startMs);
  if (client.options.ordersPerDay > 0) planTruck(client, startMs);
}

const performers: Performers = { ...shopTasks, ...shipmentTasks, ...returnTasks, ...inboundTasks };

/**
 * Simulates a client up to a moment. What happens does not depend on the steps in which time
 * advances.
 */
export function simulateUntil(client: Client, nowMs: number): void {
  for (;;) {
    const planned = client.takeTask(nowMs);
    if (planned === undefined) return;

    performers[planned.task.kind](client, planned.atMs, planned.task as never);
  }
}
