import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Agenda } from '../../src/sandbox/heap.ts';
import { Robot } from '../../src/sandbox/robot.ts';
import { ClientStore } from '../../src/sandbox/store.ts';

const startMs = Date.parse('2026-10-20T06:00:00Z');
const hourMs = 3_600_000;

function live(seed: number, spansHours: readonly number[]) {
  const store = new ClientStore('default', 'Europe/Amsterdam');
  const robot = new Robot(store, seed, startMs);
  let nowMs = startMs;
  for (const hours of spansHours) {
    nowMs += hours * hourMs;
    robot.runUntil(nowMs);
  }
  return { orders: store.orders, shipments: store.shipments };
}

describe('the robot', () => {
  test('does the same for the same seed, however time is advanced', () => {
    expect(live(7, [240])).toEqual(
      live(
        7,
        Array.from({ length: 240 }, () => 1),
      ),
    );
    expect(live(8, [48])).not.toEqual(live(7, [48]));
  });

  test('makes every kind of life: several parcels an order, every state, late visibility', () => {
    const { orders, shipments } = live(3, [24 * 20]);
    expect(shipments.length).toBeGreaterThan(orders.length);
    expect(new Set(shipments.map(({ status }) => status))).toEqual(
      new Set(['READY_TO_PICK', 'READY_TO_SORT', 'READY_TO_SHIP', 'SHIPPED', 'ERROR']),
    );
    expect(shipments.some(({ visibleFromMs, readyToPickOn }) => visibleFromMs > readyToPickOn.ms)).toBe(true);
    const ids = shipments.map(({ id }) => id);
    expect(ids).toEqual([...new Set(ids)].sort((left, right) => left - right));
  });
});

test('the agenda gives back its entries by time, then by place', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(20)), (times) => {
      const agenda = new Agenda<{ atMs: number; place: number }>();
      const entries = times.map((atMs, place) => ({ atMs, place }));
      for (const entry of entries) agenda.push(entry);
      const popped = entries.map(() => agenda.pop());
      expect(popped).toEqual([...entries].sort((a, b) => a.atMs - b.atMs || a.place - b.place));
      expect(agenda.pop()).toBeUndefined();
    }),
  );
});
