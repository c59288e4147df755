import { pino } from 'pino';
import { expect, test } from 'vitest';
import { throttleWarnings } from '../../../src/core/logger.ts';

test('a repeated warning is logged every 30 s, with the number held back; others at once', () => {
  const lines: { event: string; heldBack?: number }[] = [];
  let nowMs = 0;
  const log = pino(
    { base: null, timestamp: false },
    { write: (line: string) => void lines.push(JSON.parse(line)) },
  );
  const warn = throttleWarnings(log, () => nowMs);
  const lost = { event: 'redis_connection_lost', code: 'ECONNREFUSED', error: 'refused' };
  for (let second = 0; second <= 60; second++) {
    nowMs = second * 1_000;
    warn(lost);
  }
  warn({ ...lost, event: 'queue_error' });
  expect(lines.map(({ event, heldBack }) => [event, heldBack])).toEqual([
    ['redis_connection_lost', undefined],
    ['redis_connection_lost', 29],
    ['redis_connection_lost', 29],
    ['queue_error', undefined],
  ]);
});
