import { describe, expect, test } from 'vitest';
import { buildTrends, findFirstStep, findPercentile } from '../../../src/operate/health/trends.ts';
import type { Figure, Measure } from '../../../src/operate/sql/read-figures.ts';
import { wantsJson } from '../../../src/serve/admin/send-page.ts';
import { renderCharts } from '../../../src/serve/pages/charts.ts';

const now = new Date('2026-05-04T12:10:00Z');
const steps = { span: '1 hour', figureMinutes: 5, minutes: 15, count: 4 } as const;
const figure = (measure: Measure, part: string, time: string, value: number): Figure => ({
  measure,
  part,
  atMs: Date.parse(`2026-05-04T${time}:00Z`),
  value,
});
const build = (...figures: Figure[]) => buildTrends(figures, steps, now, ['orders', 'shipments']);

describe('the series of a chart', () => {
  test('have steps that begin at full quarters of an hour, the last one under way', () => {
    expect(findFirstStep(now, steps).toISOString()).toBe('2026-05-04T11:15:00.000Z');
    expect(build().times.map((time) => time.toISOString().slice(11, 16))).toEqual([
      '11:15',
      '11:30',
      '11:45',
      '12:00',
    ]);
  });

  test('add up shorter spans, keep the largest age, and leave out other times', () => {
    const trends = build(
      figure('rows', 'orders', '11:00', 100),
      figure('rows', 'orders', '11:30', 3),
      figure('rows', 'orders', '11:35', 4),
      figure('stream_age', 'orders', '11:30', 70),
      figure('stream_age', 'orders', '11:35', 50),
      figure('oldest_pending', '', '12:05', 9),
      figure('rows', 'shipments', '12:15', 100),
    );
    expect(trends.rows).toEqual([
      { name: 'orders', values: [0, 7, 0, 0] },
      { name: 'shipments', values: [0, 0, 0, 0] },
    ]);
    expect(trends.streamAges[0]).toEqual({ name: 'orders', values: [null, 70, null, null] });
    expect(trends.oldestPending[0]?.values).toEqual([0, 0, 0, 9]);
  });

  test('give pushes per minute, also in the step under way', () => {
    const { pushes } = build(
      figure('pushes', 'done', '11:15', 30),
      figure('pushes', 'done', '12:00', 30),
    );
    expect(pushes[0]).toEqual({ name: 'done', values: [2, 0, 0, 3] });
  });

  test('give p50 and p99 of all spans of waiting times in a step', () => {
    const { waits } = build(
      figure('waits', '39', '11:15', 60),
      figure('waits', '39', '11:20', 38),
      figure('waits', '60', '11:25', 2),
    );
    expect(waits[0]?.values).toEqual([expect.closeTo(0.939, 3), null, null, null]);
    expect(waits[1]?.values[0]).toBeCloseTo(35.7, 0);
  });
});

test('a longer span is drawn once it shows more than the shorter one', () => {
  const days = { span: '2 days', figureMinutes: 60, minutes: 60, count: 48 } as const;
  const draw = (...figures: Figure[]) => {
    const spans = [build(...figures), buildTrends(figures, days, now, ['orders', 'shipments'])];
    return [...renderCharts(spans).text.matchAll(/<h2>The last (.+?)<\/h2>/g)].map(
      ([, span]) => span,
    );
  };
  expect(draw()).toEqual(['1 hour']);
  expect(draw(figure('rows', 'orders', '12:00', 1))).toEqual(['1 hour']);
  expect(draw(figure('rows', 'orders', '11:00', 1))).toEqual(['1 hour', '2 days']);
});

test('a percentile is at most 9 % away from each time of its span', () => {
  for (const ms of [1, 7, 100, 861, 12_345, 9_000_000]) {
    const found = findPercentile(new Map([[Math.floor(4 * Math.log2(ms)), 1]]), 0.5) ?? 0;
    expect(Math.abs(found * 1_000 - ms) / ms).toBeLessThan(0.1);
  }
  expect(findPercentile(new Map(), 0.5)).toBeNull();
});

test.each([
  ['*/*', false],
  ['application/json', true],
  ['text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8', false],
  ['application/json, text/html', false],
  ['application/json, text/html;q=0.9', true],
  ['application/json;q=0', false],
])('the Accept header %j prefers JSON: %s', (accept, expected) =>
  expect(wantsJson(accept)).toBe(expected),
);
