import { expect, test, vi } from 'vitest';
import { tellProgress } from '../../../src/cli/commands/rescan.ts';
import type { Rescan } from '../../../src/pull/sql/rescans.ts';

test.each([
  { read: { fetched: 6_100, pages: 61 }, words: '61 % 6,100 read in 61 pages, 3 healed' },
  { read: { fetched: 100, pages: 1 }, words: '1 % 100 read in 1 page, 3 healed' },
])('a rescan tells its progress every 5 seconds: $words', ({ read, words }) => {
  const rescan = { ...read, expected: 10_000, missing: 2, stale: 1 } as Rescan;
  const clock = vi.spyOn(performance, 'now').mockReturnValue(0);
  const written: string[] = [];
  const tell = tellProgress('default reconcile orders', (line) => written.push(line));
  for (const ms of [0, 4_999, 5_000, 9_999]) {
    clock.mockReturnValue(ms);
    tell(rescan);
  }
  clock.mockRestore();
  expect(written).toEqual([`default reconcile orders: ${words}`]);
});
