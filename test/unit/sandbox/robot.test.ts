import { describe, expect, test } from 'vitest';
import { simulateUntil } from '../../../src/sandbox/robot/robot.ts';
import type { Client } from '../../../src/sandbox/store/client.ts';
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
});
