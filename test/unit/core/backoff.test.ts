import { expect, test } from 'vitest';
import { pauses, toPauseMs } from '../../../src/core/backoff.ts';

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
