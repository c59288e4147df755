import { expect, test } from 'vitest';
import type { Schedule } from '../../../config/schedules.ts';
import { findFiringMs } from '../../../src/schedule/schedulers.ts';

test.each([
  [{ kind: 'every', everyMs: 5_000 }, 5_000],
  [{ kind: 'every', everyMs: 86_400_000 }, 600_000],
  [{ kind: 'cron', pattern: '0 3 * * *' }, 600_000],
  [{ kind: 'off' }, null],
  [{ kind: 'on-request' }, null],
] as [Schedule, number | null][])('a scheduler of %j fires every %s ms', (schedule, everyMs) => {
  expect(findFiringMs(schedule)).toBe(everyMs);
});
