import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { longTurnMs, RunSlots, shortMs } from '../../../src/queue/run-slots.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const never = () => {
  throw new Error('was asked to make room');
};

test('a client among several gets a quarter of the slots; turned away, it is told when one is free', () => {
  const slots = new RunSlots(8, 3);
  const [first, second, third] = ['x', 'y', 'z'].map((job) => slots.take('a', job, never));
  expect(third).toBeNull();
  const other = slots.take('b', 'x', never);
  expect(other?.give(true)).toEqual([]);
  expect(first?.give(true)).toEqual(['a']);
  expect(second?.give(true)).toEqual([]);
  expect(slots.take('a', 'x', never)).not.toBeNull();
});

test('one client alone may have them all, also for long runs, and each of many at least one', () => {
  const alone = new RunSlots(8, 1);
  const taken = Array.from({ length: 9 }, (_, index) => alone.take('a', `${index}`, never));
  expect(taken.map((slot) => slot !== null)).toEqual([...Array(8).fill(true), false]);
  vi.advanceTimersByTime(shortMs + 1);
  expect(new RunSlots(2, 5).take('a', 'x', never)).not.toBeNull();
});

test('half of the slots are never taken by long runs: the next that becomes long makes room, and goes on when one ends', () => {
  const slots = new RunSlots(8, 10);
  const long = ['a', 'b', 'c', 'd'].map((client) => slots.take(client, 'first-load', never));
  vi.advanceTimersByTime(shortMs + 1);
  const makeRoom = vi.fn();
  const fifth = slots.take('e', 'first-load', makeRoom);
  vi.advanceTimersByTime(shortMs - 1);
  expect(makeRoom).not.toHaveBeenCalled();
  vi.advanceTimersByTime(1);
  expect(makeRoom).toHaveBeenCalledOnce();
  expect(fifth?.give(false)).toEqual([]);
  // It waits; other runs of its client do not.
  expect(slots.take('e', 'first-load', never)).toBeNull();
  expect(slots.take('e', 'poll', never)?.give(true)).toEqual([]);
  expect(long[0]?.give(true)).toEqual(['e']);
  const again = slots.take('e', 'first-load', never);
  expect(again).not.toBeNull();
  vi.advanceTimersByTime(shortMs * 3);
  expect(again?.give(true)).toEqual([]);
});

test('a long run makes room after its turn where another waits for one, and only then', () => {
  const slots = new RunSlots(2, 10);
  const makeRoom = vi.fn();
  const long = slots.take('a', 'first-load', makeRoom);
  vi.advanceTimersByTime(shortMs + longTurnMs * 2);
  expect(makeRoom).not.toHaveBeenCalled();
  const other = vi.fn();
  const next = slots.take('b', 'first-load', other);
  vi.advanceTimersByTime(shortMs);
  expect(other).toHaveBeenCalledOnce();
  next?.give(false);
  vi.advanceTimersByTime(shortMs);
  expect(makeRoom).toHaveBeenCalledOnce();
  expect(long?.give(false)).toEqual(expect.arrayContaining(['a', 'b']));
});

test('a run that would lose what it has done is never asked to make room, and waits for none', () => {
  const slots = new RunSlots(2, 10);
  const long = slots.take('a', 'first-load', never);
  vi.advanceTimersByTime(shortMs + longTurnMs - 30_000);
  const gated = slots.take('b', 'track-trace', null);
  // It becomes long while there is no slot for it; then the turn of the other one ends.
  vi.advanceTimersByTime(shortMs + 30_000);
  expect(gated?.give(true)).toEqual([]);
  expect(long?.give(true)).toEqual([]);
});

test('a run that had to leave at the end of its turn gets twice as long the next time', () => {
  const slots = new RunSlots(2, 10);
  const stopped = vi.fn();
  const first = slots.take('a', 'poll', stopped);
  vi.advanceTimersByTime(shortMs);
  const second = slots.take('b', 'poll', vi.fn());
  vi.advanceTimersByTime(shortMs);
  second?.give(false);
  /** The sweeper queues the other one again and again; there is no slot for it. */
  const passWhileOtherWaits = (ms: number) => {
    for (let passedMs = 0; passedMs < ms; passedMs += 30_000) {
      expect(slots.take('b', 'poll', vi.fn())).toBeNull();
      vi.advanceTimersByTime(30_000);
    }
  };
  passWhileOtherWaits(longTurnMs);
  expect(stopped).toHaveBeenCalledOnce();
  expect(first?.give(false)).toEqual(expect.arrayContaining(['a', 'b']));
  const again = vi.fn();
  slots.take('a', 'poll', again);
  passWhileOtherWaits(longTurnMs + 60_000);
  expect(again).not.toHaveBeenCalled();
  passWhileOtherWaits(longTurnMs);
  expect(again).toHaveBeenCalledOnce();
});

test('a run that waits and is not due any more keeps no other from going on', () => {
  const slots = new RunSlots(2, 10);
  slots.take('a', 'first-load', never);
  vi.advanceTimersByTime(shortMs);
  const stopped = vi.fn();
  const other = slots.take('b', 'first-load', stopped);
  vi.advanceTimersByTime(shortMs);
  other?.give(false);
  // Nobody queues it again: it was paused, say.
  vi.advanceTimersByTime(2 * longTurnMs);
  expect(stopped).toHaveBeenCalledOnce();
});
