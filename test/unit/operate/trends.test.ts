import { describe, expect, test } from 'vitest';
import {
  buildTrends,
  findFirstStep,
  findPercentile,
  type Series,
} from '../../../src/operate/health/trends.ts';
import type { Figure, Measure } from '../../../src/operate/sql/read-figures.ts';
import { wantsJson } from '../../../src/serve/admin/send-page.ts';

const now = new Date('2026-05-04T12:10:00Z');
const figure = (measure: Measure, part: string, time: string, value: number): Figure => ({
  measure,
  part,
  atMs: Date.parse(`2026-05-04T${time}:00Z`),
  value,
});
const build = (...figures: Figure[]) => buildTrends(figures, now);
/** Returns the last values of a series. */
const takeLast = (series: readonly Series[], name: string) =>
  series.find((one) => one.name === name)?.values.slice(-4);

describe('the series of a chart', () => {
  test('have steps that begin at full quarters of an hour, the last one under way', () => {
    expect(findFirstStep(now).toISOString()).toBe('2026-05-03T12:15:00.000Z');
    const { times } = build();
    expect(times).toHaveLength(96);
    expect(times.at(-1)?.toISOString()).toBe('2026-05-04T12:00:00.000Z');
  });

  test('have the figure of each step, and leave out other times', () => {
    const trends = build(
      figure('rows', 'orders', '11:30', 7),
      figure('pushes', 'done', '12:00', 30),
      figure('oldest_pending', '', '12:00', 9),
      figure('rows', 'shipments', '12:15', 100),
    );
    expect(takeLast(trends.rows, 'orders')).toEqual([0, 7, 0, 0]);
    expect(takeLast(trends.rows, 'shipments')).toEqual([0, 0, 0, 0]);
    expect(takeLast(trends.pushes, 'done')).toEqual([0, 0, 0, 30]);
    expect(takeLast(trends.oldestPending, 'oldest')).toEqual([0, 0, 0, 9]);
  });

  test('give p50 and p99 of all spans of waiting times in a step', () => {
    const { waits } = build(figure('waits', '39', '11:15', 98), figure('waits', '60', '11:15', 2));
    expect(takeLast(waits, 'p50')).toEqual([expect.closeTo(0.939, 3), null, null, null]);
    expect(takeLast(waits, 'p99')?.[0]).toBeCloseTo(35.7, 0);
  });
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
  ['text/html, application/json', false],
  ['application/json, text/html', true],
  ['application/json, text/html;q=0.9', true],
])('the Accept header %j prefers JSON: %s', (accept, expected) =>
  expect(wantsJson(accept)).toBe(expected),
);
