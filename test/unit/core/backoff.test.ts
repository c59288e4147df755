import { expect, test } from 'vitest';
import {
  type Backoff,
  growPauseMs,
  makeFixedPause,
  pauses,
  toPauseMs,
} from '../../../src/core/backoff.ts';

test.each<[string, Backoff, number[]]>([
  ['a push grows twofold up to 15 minutes', pauses.push, [1_000, 2_000, 4_000, 900_000]],
  ['the listener grows twofold up to 5 seconds', pauses.listener, [250, 500, 1_000, 5_000]],
  ['redis grows evenly up to 2 seconds', pauses.redis, [100, 200, 300, 2_000]],
  ['a fixed pause stays the same', makeFixedPause(500), [500, 500, 500, 500]],
])('%s', (_, pause, expected) => {
  expect([1, 2, 3, 5_000].map((number) => growPauseMs(pause, number))).toEqual(expected);
});

test('the first hold of a kind, after five failures, lasts half a second', () => {
  expect(Math.round(growPauseMs(pauses.failingKind, 6))).toBe(503);
});

test('full jitter takes a random part of the pause', () => {
  expect([0, 0.5, 0.999_999].map((random) => toPauseMs(pauses.push, 3, random))).toEqual([
    0, 2_000, 4_000,
  ]);
  expect(toPauseMs(pauses.lookUp, 1, 0)).toBe(2_000);
});

test('a pause is not shorter than Retry-After, and not longer than its longest', () => {
  expect(toPauseMs(pauses.push, 1, 0, 60_000)).toBe(60_000);
  expect(toPauseMs(pauses.push, 1, 0.5, 86_400_000)).toBe(900_000);
});
