import { afterEach, expect, test, vi } from 'vitest';
import { isRecent } from '../../../src/push/send-row.ts';

afterEach(() => void vi.restoreAllMocks());

test.each([
  ['right after it', 0, 0, true],
  ['later', 4_000, 4_000, false],
  ['after the machine was suspended', 0, 3_600_000, false],
  ['after the clock was set back', 0, -3_600_000, false],
])('a claim counts as recent %s: by both clocks', (_, ms, wallMs, expected) => {
  const claim = { claimedAtMs: performance.now(), claimedWallMs: Date.now() };
  const [now, wall] = [performance.now(), Date.now()];
  vi.spyOn(performance, 'now').mockReturnValue(now + ms);
  vi.spyOn(Date, 'now').mockReturnValue(wall + wallMs);
  expect(isRecent(claim)).toBe(expected);
});
