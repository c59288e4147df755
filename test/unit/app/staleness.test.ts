import { describe, expect, test } from 'vitest';
import { parseSchedule } from '../../../config/schedules.ts';
import { findStale } from '../../../src/app/health/staleness.ts';
import type { JobStatus } from '../../../src/erp/reports/job-status.ts';

const now = new Date('2026-05-04T12:00:00Z');
const minutesAgo = (minutes: number) => new Date(now.getTime() - minutes * 60_000);
const came = new Map([['default', minutesAgo(60)]]);

const row: JobStatus = {
  client: 'default',
  job: 'pull-orders',
  stream: 'orders',
  running: false,
  dueAt: now,
  lastStartedAt: null,
  lastSuccessAt: minutesAgo(1),
  lagSeconds: null,
  lastFetched: 0,
  lastChanged: 0,
  lastOutcome: null,
  lastError: null,
  consecutiveFailures: 0,
  quarantined: 0,
  warnings: [],
  pausedSince: null,
  skips: 0,
  lastSkipAt: null,
  lastSkipReason: null,
};
const stale = (more: Partial<JobStatus>, schedule = '10m', cameAt = came) =>
  findStale([{ ...row, ...more }], { 'pull-orders': parseSchedule(schedule) }, cameAt, now).map(
    ({ because }) => because,
  );

describe('a job', () => {
  test.each<[string, Partial<JobStatus>, string, string[]]>([
    ['that got done a moment ago', {}, '10m', []],
    ['two turns late', { lastSuccessAt: minutesAgo(20) }, '10m', []],
    ['more than three turns late', { lastSuccessAt: minutesAgo(31) }, '10m', ['not run']],
    ['that fails since', { lastSuccessAt: minutesAgo(31), consecutiveFailures: 2 }, '10m', ['failing']],
    [
      'that is paused since',
      { lastSuccessAt: minutesAgo(31), consecutiveFailures: 2, pausedSince: now },
      '10m',
      ['paused'],
    ],
    ['of a second, within a minute', { lastSuccessAt: minutesAgo(0.9) }, '1s', []],
    ['of a second, after more than a minute', { lastSuccessAt: minutesAgo(1.1) }, '1s', ['not run']],
    ['of a day, before its turn can have come', { lastSuccessAt: minutesAgo(60 * 2) }, '1d', []],
    ['of a day, six hours after its turn at the latest', { lastSuccessAt: minutesAgo(60 * 33) }, '1d', ['not run']],
    ['by cron, before its turn', { lastSuccessAt: minutesAgo(60) }, '0 3 * * *', []],
    ['by cron, hours after its turn', { lastSuccessAt: minutesAgo(60 * 40) }, '0 3 * * *', ['not run']],
    ['that is off', { lastSuccessAt: minutesAgo(60 * 24 * 90) }, 'off', []],
    ['that comes when it is asked for', { lastSuccessAt: null }, 'on-request', []],
    ['that never got done', { lastSuccessAt: null }, '10m', ['not run']],
    ['that was switched on a moment ago', { lastSuccessAt: null, dueAt: minutesAgo(-5) }, '10m', []],
    ['whose first run is reading', { lastSuccessAt: null, running: true }, '10m', []],
  ])('%s', (_what, more, schedule, expected) => expect(stale(more, schedule)).toEqual(expected));

  test('of a client that has just come is not late', () =>
    expect(stale({ lastSuccessAt: null }, '10m', new Map([['default', minutesAgo(5)]]))).toEqual([]));
});
