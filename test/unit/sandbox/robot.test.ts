import { describe, expect, test } from 'vitest';
import { simulateUntil } from '../../../src/sandbox/robot/robot.ts';
import { placeRequestedOrder } from '../../../src/sandbox/robot/shop.ts';
import type { Client } from '../../../src/sandbox/store/client.ts';
import { createServiceLists } from '../../../src/sandbox/store/service-lists.ts';
import { World } from '../../../src/sandbox/world.ts';

const startMs = Date.parse('2026-10-20T06:00:00Z');
const hourMs = 3_600_000;

const openClient = (seed: number) =>
  new World({
    clients: ['default'],
    seed,
    speed: 0,
    startMs,
    zone: 'Europe/Amsterdam',
    ordersPerDay: 68,
    lateChanges: true,
  }).requireClient('default');

function simulate(seed: number, spansHours: readonly number[], watch?: (client: Client) => void) {
  const client = openClient(seed);
  let nowMs = startMs;
  for (const hours of spansHours) {
    nowMs += hours * hourMs;
    simulateUntil(client, nowMs);
    watch?.(client);
  }
  return {
    products: [...client.products.values()],
    orders: [...client.orders],
    shipments: [...client.shipments],
    returnItems: [...client.returnItems],
    inbounds: [...client.inbounds],
    slips: [...client.slips],
  };
}

describe('the robot', () => {
  test('does the same for the same seed, however time is advanced', () => {
    const hours = Array.from({ length: 240 }, () => 1);
    expect(simulate(7, [240])).toEqual(simulate(7, hours));
    expect(simulate(8, [48])).not.toEqual(simulate(7, [48]));
  });

  test('ships each method only from warehouses that offer it, and runs out of no article for long', () => {
    const lists = createServiceLists();
    const { shipments, orders } = simulate(5, [24 * 60]);
    const others = shipments.filter(
      ({ shippingMethodId, warehouseCode }) =>
        !lists.findOfferingWarehouses(shippingMethodId).includes(warehouseCode),
    );
    expect(others).toEqual([]);
    expect(new Set(shipments.map(({ shippingMethodId }) => shippingMethodId)).size).toBe(3);
    const waiting = orders.filter(
      ({ shipmentIds, notValid }) => shipmentIds.length === 0 && !notValid,
    );
    expect(waiting.length).toBeLessThan(orders.length / 20);
  });

  test('makes orders of several parcels, every status of shipments, and late visibility', () => {
    const { orders, shipments } = simulate(3, [24 * 20]);
    expect(shipments.length).toBeGreaterThan(orders.length);
    expect(new Set(shipments.map(({ status }) => status))).toEqual(
      new Set(['READY_TO_PICK', 'READY_TO_SORT', 'READY_TO_SHIP', 'SHIPPED', 'ERROR']),
    );
    expect(
      shipments.some(({ visibleFromMs, readyToPickOnMs }) => visibleFromMs > readyToPickOnMs),
    ).toBe(true);
    const ids = shipments.map(({ id }) => id);
    expect(ids).toEqual([...new Set(ids)].sort((left, right) => left - right));
    const items = shipments.flatMap((shipment) => shipment.items);
    expect(
      items.some(({ lotNumber, expirationDate }) => lotNumber !== null && expirationDate !== null),
    ).toBe(true);
    expect(items.some(({ serialNumbers, quantity }) => serialNumbers.length === quantity)).toBe(
      true,
    );
  });

  test('shows the shipments of orders that somebody else placed at once', () => {
    const client = openClient(3);
    const ids = Array.from({ length: 200 }, (_, index) => {
      const externalOrderNumber = `WEB-${index}`;
      return placeRequestedOrder(client, { externalOrderNumber, onHold: false }, startMs).id;
    });
    simulateUntil(client, startMs + 2 * hourMs);
    const shipments = [...client.shipments].filter(({ orderId }) => ids.includes(orderId));
    expect(shipments.length).toBeGreaterThan(150);
    const late = shipments.filter((one) => one.visibleFromMs > one.readyToPickOnMs);
    expect(late).toEqual([]);
  });
});
