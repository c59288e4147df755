import { afterEach, expect, test, vi } from 'vitest';
import { isRecent, RecentSends } from '../../../src/push/send-row.ts';
import type { ClaimedRow } from '../../../src/push/sql/claim-rows.ts';

afterEach(() => vi.restoreAllMocks());
const row = (id: number) => ({ id, claimNo: id + 100, attempts: 1 }) as ClaimedRow;
const ids = (sends: RecentSends) => sends.rows.map(({ id }) => id);

test('the last 1,000 rows are remembered for an hour, more if more are sent at a time or in ten seconds', () => {
  let nowMs = 0;
  vi.spyOn(performance, 'now').mockImplementation(() => nowMs);
  const [few, many] = [new RecentSends(8), new RecentSends(2_000)];
  for (let id = 1; id <= 1_500; id++) for (const sends of [few, many]) sends.remember(row(id));
  expect(few.rows).toHaveLength(1_500);
  nowMs = 10_000;
  for (const sends of [few, many]) sends.remember(row(1_501));
  expect([few.rows.length, few.rows[0]?.id, many.rows.length]).toEqual([1_000, 502, 1_501]);
  nowMs = 3_605_000;
  expect(ids(few)).toEqual([1_501]);
});

test('a row that was certainly not carried out is forgotten', () => {
  const sends = new RecentSends(1);
  sends.remember(row(1));
  sends.remember(row(2));
  sends.forget(row(1));
  expect(ids(sends)).toEqual([2]);
  sends.clear();
  expect(ids(sends)).toEqual([]);
});

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
