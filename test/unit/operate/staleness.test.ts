import { describe, expect, test } from 'vitest';
import { parseSchedule } from '../../../config/schedules.ts';
import { findLateJobs } from '../../../src/operate/health/state.ts';
import type { JobStatus } from '../../../src/operate/sql/job-status.ts';
import { makeJobStatus } from '../../helpers/job-status.ts';

const now = new Date('2026-05-04T12:00:00Z');
const minutesAgo = (minutes: number) => new Date(now.getTime() - minutes * 60_000);
const acceptedAnHourAgo = new Map([['default', minutesAgo(60)]]);

const findReasons = (
  changes: Partial<JobStatus>,
  schedule = '10m',
  acceptedAt = acceptedAnHourAgo,
) =>
  findLateJobs(
    [makeJobStatus({ dueAt: now, lastSuccessAt: minutesAgo(1), ...changes })],
    { 'pull-orders': parseSchedule(schedule) },
    acceptedAt,
    now,
  ).map(({ because }) => because);

describe('a job', () => {
  test.each<[string, Partial<JobStatus>, string, string[]]>([
    ['that was done a moment ago', {}, '10m', []],
    ['two intervals late', { lastSuccessAt: minutesAgo(20) }, '10m', []],
    ['more than three intervals late', { lastSuccessAt: minutesAgo(31) }, '10m', ['not run']],
    [
      'that has been paused since',
      { lastSuccessAt: minutesAgo(31), consecutiveFailures: 2, pausedSince: now },
      '10m',
      ['paused'],
    ],
    ['with two intervals, late by the shorter one', { lastSuccessAt: minutesAgo(8) }, '30s-4m', []],
    [
      'with two intervals, late by the longer one',
      { lastSuccessAt: minutesAgo(13) },
      '30s-4m',
      ['not run'],
    ],
    [
      'of every second, after more than a minute',
      { lastSuccessAt: minutesAgo(1.1) },
      '1s',
      ['not run'],
    ],
    [
      'of every day, hours after it must have been due',
      { lastSuccessAt: minutesAgo(60 * 33) },
      '1d',
      ['not run'],
    ],
    [
      'by cron, hours after its due time',
      { lastSuccessAt: minutesAgo(60 * 40) },
      '0 3 * * *',
      ['not run'],
    ],
    ['that is off', { lastSuccessAt: minutesAgo(60 * 24 * 90) }, 'off', []],
    ['that runs on request', { lastSuccessAt: null }, 'on-request', []],
    ['that was never done', { lastSuccessAt: null }, '10m', ['not run']],
    [
      'that was switched on a moment ago',
      { lastSuccessAt: null, dueAt: minutesAgo(-5) },
      '10m',
      [],
    ],
    ['whose first run is under way', { lastSuccessAt: null, running: true }, '10m', []],
    [
      'late, but under way',
      { lastSuccessAt: minutesAgo(31), running: true, lastStartedAt: minutesAgo(59) },
      '10m',
      [],
    ],
    [
      'under way again and again, but not done for more than a day',
      { lastSuccessAt: minutesAgo(60 * 25), running: true, lastStartedAt: minutesAgo(1) },
      '10m',
      ['not run'],
    ],
    [
      'under way for more than an hour',
      { lastSuccessAt: minutesAgo(90), running: true, lastStartedAt: minutesAgo(61) },
      '10m',
      ['not run'],
    ],
  ])('%s', (_what, changes, schedule, expected) =>
    expect(findReasons(changes, schedule)).toEqual(expected),
  );

  test('of a client that was just accepted is not late', () =>
    expect(
      findReasons({ lastSuccessAt: null }, '10m', new Map([['default', minutesAgo(5)]])),
    ).toEqual([]));
});
