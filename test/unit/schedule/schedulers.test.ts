import { describe, expect, test } from 'vitest';
import { type JobName, jobNames } from '../../../config/jobs.ts';
import { parseSchedule, type Schedule } from '../../../config/schedules.ts';
import { planNext } from '../../../src/schedule/plan-next.ts';
import { planPaces } from '../../../src/schedule/schedulers.ts';

const off = Object.fromEntries(jobNames.map((job) => [job, { kind: 'off' }]));
const plan = (schedules: Record<string, string>, clients: number, pushSweepMs: number | null) =>
  planPaces(
    {
      ...(off as Record<JobName, Schedule>),
      ...Object.fromEntries(
        Object.entries(schedules).map(([job, text]) => [job, parseSchedule(text)]),
      ),
    },
    Array.from({ length: clients }, (_, index) => `shop-${index + 1}`),
    pushSweepMs,
  );

describe('the scheduler of one client', () => {
  test.each(['30s', '30s-4m', '5m', '1d', '0 3 * * *'])(
    'fires when the job of a schedule %s is due',
    (text) => {
      const pace = plan({ 'pull-orders': text }, 1, null).get('pull-orders');
      const key = { client: 'shop-1', job: 'pull-orders' };
      const due = planNext(parseSchedule(text), key, { kind: 'begin', at: new Date() });
      expect((Number(due) - Number(pace?.offsetMs)) % Number(pace?.everyMs)).toBe(0);
    },
  );
});

test.each([
  [2, 150_000],
  [50, 6_000],
  [1_000, 1_000],
])('with %i clients, a job of five minutes fires every %i ms', (clients, everyMs) => {
  const paces = plan({ 'pull-orders': '5m' }, clients, null);
  expect([...paces]).toEqual([['pull-orders', { everyMs, offsetMs: null }]]);
});

test('a job that is off or on request does not fire; the push fires at its sweep', () => {
  expect([...plan({ backfill: 'on-request' }, 1, 15_000)]).toEqual([
    ['push-outbox', { everyMs: 15_000, offsetMs: null }],
  ]);
});

test.each([1, 1_000])('all schedulers of %i clients fire at most ten times a second', (clients) => {
  const everySecond = Object.fromEntries(jobNames.map((job) => [job, '1s']));
  const paces = [...plan(everySecond, clients, 100).values()];
  const firings = paces.reduce((sum, { everyMs }) => sum + 1_000 / everyMs, 0);
  expect(firings).toBeLessThanOrEqual(10);
  expect(firings).toBeGreaterThan(9);
});
