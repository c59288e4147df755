import { expect, test } from 'vitest';
import { ClientSlots } from '../../src/queue/client-slots.ts';

test('a client among several gets a quarter of the slots; turned away, it is told when one is free', () => {
  const slots = new ClientSlots(8, 3);
  expect([slots.take('a'), slots.take('a'), slots.take('a')]).toEqual([true, true, false]);
  expect(slots.take('b')).toBe(true);
  expect(slots.give('b')).toBe(false);
  expect(slots.give('a')).toBe(true);
  expect(slots.give('a')).toBe(false);
  expect(slots.take('a')).toBe(true);
});

test('one client alone may have them all, and each of many at least one', () => {
  const alone = new ClientSlots(8, 1);
  expect(Array.from({ length: 9 }, () => alone.take('a'))).toEqual([...Array(8).fill(true), false]);
  expect(new ClientSlots(2, 5).take('a')).toBe(true);
});
