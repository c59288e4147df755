import { expect, test } from 'vitest';
import type { Database } from '../../../src/db/pool.ts';
import { RowBuffer } from '../../../src/push/client-pusher.ts';

// Only returns of rows need a database.
const noDatabase = {} as Database;

test.each([
  ['64 ahead of 8 slots that need 62 ms for a row', { slots: 8, sendMs: 62, rows: 64 }],
  ['no more than 16 for each slot', { slots: 8, sendMs: 1, rows: 128 }],
  ['no fewer than 4 for each slot', { slots: 8, sendMs: 30_000, rows: 32 }],
  ['no fewer than 8', { slots: 1, sendMs: 30_000, rows: 8 }],
  ['no more than 256', { slots: 64, sendMs: 1, rows: 256 }],
])('rows are claimed as far ahead as half a second reaches: %s', (_rule, expected) => {
  const buffer = new RowBuffer(noDatabase, expected.slots);
  for (let row = 0; row < 200; row++) buffer.noteSendTime(expected.sendMs);

  expect(buffer.room.rows).toBe(expected.rows);
});

test('before the first answer, 4 rows are claimed for each slot', () => {
  expect(new RowBuffer(noDatabase, 8).room.rows).toBe(32);
});
