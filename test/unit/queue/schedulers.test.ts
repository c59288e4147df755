import { expect, test } from 'vitest';
import type { Schedule } from '../../../config/schedules.ts';
import { findTickMs } from '../../../src/queue/schedulers.ts';

const every = (everyMs: number): Schedule => ({ kind: 'every', everyMs });
const cron: Schedule = { kind: 'cron', pattern: '0 3 * * *' };

test.each([
  ['the shortest interval', [every(120_000), every(5_000), cron], 5_000],
  ['at most a minute', [every(120_000), every(86_400_000)], 60_000],
  ['a minute for cron expressions', [cron, { kind: 'off' }], 60_000],
] as [string, Schedule[], number][])('the tick comes at %s', (_, schedules, tickMs) => {
  expect(findTickMs(schedules)).toBe(tickMs);
});
