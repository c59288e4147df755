import { pino } from 'pino';
import { expect, test } from 'vitest';
import { repeatedWarnings } from '../../../src/app/logging/repeated.ts';

test('a swarm of warnings is said once in half a minute, with the number held back; other kinds are not held up', () => {
  const lines: { event: string; heldBack?: number }[] = [];
  let nowMs = 0;
  const log = pino({ base: null, timestamp: false }, { write: (line: string) => void lines.push(JSON.parse(line)) });
  const warn = repeatedWarnings(log, () => nowMs);
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
