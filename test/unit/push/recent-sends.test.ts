import { afterEach, expect, test, vi } from 'vitest';
import type { ClaimedRow } from '../../../src/erp/outbox/claim-rows.ts';
import { RecentSends } from '../../../src/sync/push/recent-sends.ts';

afterEach(() => vi.restoreAllMocks());
const row = (id: number) => ({ id, claimNo: id + 100, attempts: 1 }) as ClaimedRow;
const ids = (sends: RecentSends) => sends.rows.map(({ id }) => id);

test('the rows that were sent last are remembered for an hour', () => {
  let nowMs = 0;
  vi.spyOn(performance, 'now').mockImplementation(() => nowMs);
  const sends = new RecentSends(1);
  sends.note(row(1));
  nowMs = 3_000_000;
  sends.note(row(2));
  expect(ids(sends)).toEqual([1, 2]);
  nowMs = 3_700_000;
  expect(ids(sends)).toEqual([2]);
});

test('the last 1,000 rows are remembered, or more if more are sent at a time', () => {
  let nowMs = 0;
  vi.spyOn(performance, 'now').mockImplementation(() => nowMs);
  const [few, many] = [new RecentSends(8), new RecentSends(2_000)];
  for (let id = 1; id <= 1_500; id++) for (const sends of [few, many]) sends.note(row(id));
  nowMs = 10_000;
  for (const sends of [few, many]) sends.note(row(1_501));
  expect([few.rows.length, few.rows[0]?.id, many.rows.length]).toEqual([1_000, 502, 1_501]);
});

test('every row is remembered for ten seconds, however many are sent', () => {
  let nowMs = 0;
  vi.spyOn(performance, 'now').mockImplementation(() => nowMs);
  const sends = new RecentSends(1);
  for (let id = 1; id <= 5_000; id++) sends.note(row(id));
  nowMs = 9_999;
  sends.note(row(5_001));
  expect(sends.rows).toHaveLength(5_001);
});

test('a row that was certainly not carried out is forgotten', () => {
  const sends = new RecentSends(1);
  sends.note(row(1));
  sends.note(row(2));
  sends.forget(row(1));
  expect(ids(sends)).toEqual([2]);
  sends.clear();
  expect(ids(sends)).toEqual([]);
});
