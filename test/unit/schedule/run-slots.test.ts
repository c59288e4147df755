import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { longTurnMs, RunSlots, shortMs } from '../../../src/schedule/runs.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const failIfAsked = () => {
  throw new Error('was asked to make room');
};

test('one of several clients gets a quarter of the slots, and is told when one is free again', () => {
  const slots = new RunSlots(8, 3);
  const [first, second, third] = ['x', 'y', 'z'].map((job) =>
    slots.take({ client: 'a', job }, failIfAsked),
  );
  expect(third).toBeNull();
  const other = slots.take({ client: 'b', job: 'x' }, failIfAsked);
  expect(other?.(true)).toEqual([]);
  expect(first?.(true)).toEqual([{ client: 'a', job: 'z' }]);
  expect(second?.(true)).toEqual([]);
  expect(slots.take({ client: 'a', job: 'x' }, failIfAsked)).not.toBeNull();
});

test('a single client may use all slots, also for long runs; each of many may use one', () => {
  const alone = new RunSlots(8, 1);
  const taken = Array.from({ length: 9 }, (_, index) =>
    alone.take({ client: 'a', job: `${index}` }, failIfAsked),
  );
  expect(taken.map((slot) => slot !== null)).toEqual([...Array(8).fill(true), false]);
  vi.advanceTimersByTime(shortMs + 1);
  expect(new RunSlots(2, 5).take({ client: 'a', job: 'x' }, failIfAsked)).not.toBeNull();
});

test('half of the slots are never taken by long runs: the next long run makes room and waits', () => {
  const slots = new RunSlots(8, 10);
  const long = ['a', 'b', 'c', 'd'].map((client) =>
    slots.take({ client, job: 'first-load' }, failIfAsked),
  );
  vi.advanceTimersByTime(shortMs + 1);
  const makeRoom = vi.fn();
  const fifth = slots.take({ client: 'e', job: 'first-load' }, makeRoom);
  vi.advanceTimersByTime(shortMs - 1);
  expect(makeRoom).not.toHaveBeenCalled();
  vi.advanceTimersByTime(1);
  expect(makeRoom).toHaveBeenCalledOnce();
  expect(fifth?.(false)).toEqual([]);
  // The fifth run waits. Other runs of its client do not wait.
  expect(slots.take({ client: 'e', job: 'first-load' }, failIfAsked)).toBeNull();
  expect(slots.take({ client: 'e', job: 'poll' }, failIfAsked)?.(true)).toEqual([]);
  expect(long[0]?.(true)).toMatchObject([{ client: 'e', job: 'first-load' }]);
  const again = slots.take({ client: 'e', job: 'first-load' }, failIfAsked);
  expect(again).not.toBeNull();
  vi.advanceTimersByTime(shortMs * 3);
  expect(again?.(true)).toEqual([]);
});

test('a long run makes room after its turn only if another long run waits', () => {
  const slots = new RunSlots(2, 10);
  const makeRoom = vi.fn();
  const long = slots.take({ client: 'a', job: 'first-load' }, makeRoom);
  vi.advanceTimersByTime(shortMs + longTurnMs * 2);
  expect(makeRoom).not.toHaveBeenCalled();
  const other = vi.fn();
  const next = slots.take({ client: 'b', job: 'first-load' }, other);
  vi.advanceTimersByTime(shortMs);
  expect(other).toHaveBeenCalledOnce();
  next?.(false);
  vi.advanceTimersByTime(shortMs);
  expect(makeRoom).toHaveBeenCalledOnce();
  expect(long?.(false)).toMatchObject([{ client: 'b' }, { client: 'a' }]);
});

test('a run that would lose its work never makes room, and waits for no long slot', () => {
  const slots = new RunSlots(2, 10);
  const long = slots.take({ client: 'a', job: 'first-load' }, failIfAsked);
  vi.advanceTimersByTime(shortMs + longTurnMs - 30_000);
  const gated = slots.take({ client: 'b', job: 'track-trace' }, null);
  // The run becomes long while no long slot is free. Then the turn of the other run ends.
  vi.advanceTimersByTime(shortMs + 30_000);
  expect(gated?.(true)).toEqual([]);
  expect(long?.(true)).toEqual([]);
});

test('a waiting run that is no longer due does not end the turn of another run', () => {
  const slots = new RunSlots(2, 10);
  slots.take({ client: 'a', job: 'first-load' }, failIfAsked);
  vi.advanceTimersByTime(shortMs);
  const stopped = vi.fn();
  const other = slots.take({ client: 'b', job: 'first-load' }, stopped);
  vi.advanceTimersByTime(shortMs);
  other?.(false);
  // The run is not queued again, for example because its job was paused.
  vi.advanceTimersByTime(2 * longTurnMs);
  expect(stopped).toHaveBeenCalledOnce();
});
