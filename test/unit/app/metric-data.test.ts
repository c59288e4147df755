import { DataPointType } from '@opentelemetry/sdk-metrics';
import { Counter, Gauge, Histogram, Registry, Summary } from 'prom-client';
import { expect, test } from 'vitest';
import { toMetricData } from '../../../src/app/telemetry/metric-data.ts';

const times = { startedAtMs: 1_000, nowMs: 3_500 };
const point = { startTime: [1, 0], endTime: [3, 500_000_000] };

test('a histogram keeps its series, and counts each bucket by itself', async () => {
  const registers = [new Registry()] as const;
  const histogram = new Histogram({
    name: 'waits_seconds',
    help: 'Waits',
    labelNames: ['of', 'at'],
    buckets: [0.1, 1],
    registers: [...registers],
  });
  for (const seconds of [0.05, 0.05, 0.5, 7]) histogram.observe({ of: 'a', at: 'x' }, seconds);
  histogram.observe({ of: 'b', at: 'x' }, 0.5);
  const [data] = toMetricData(await registers[0].getMetricsAsJSON(), times);
  expect(data).toMatchObject({
    descriptor: { name: 'waits_seconds', description: 'Waits', unit: 's' },
    dataPointType: DataPointType.HISTOGRAM,
    dataPoints: [
      {
        ...point,
        attributes: { of: 'a', at: 'x' },
        value: { buckets: { boundaries: [0.1, 1], counts: [2, 1, 1] }, sum: 7.6, count: 4 },
      },
      { attributes: { of: 'b', at: 'x' }, value: { buckets: { counts: [0, 1, 0] }, sum: 0.5, count: 1 } },
    ],
  });
});

test('counters are sums that only rise; a metric without a number is left out', async () => {
  const registry = new Registry();
  const registers = [registry];
  new Counter({ name: 'rows_total', help: 'Rows', labelNames: ['client'], registers }).inc({ client: 'one' }, 3);
  new Counter({ name: 'never_total', help: 'Never', labelNames: ['client'], registers });
  new Gauge({ name: 'lag_min_seconds', help: 'Lag', registers }).set(Number.NaN);
  new Gauge({ name: 'memory_bytes', help: 'Memory', registers }).set(12);
  new Gauge({ name: 'rate_rows_per_second', help: 'Rate', registers }).set(5);
  const data = toMetricData(await registry.getMetricsAsJSON(), times);
  expect(data.map(({ descriptor: { name, unit } }) => `${name} ${unit}`)).toEqual([
    'rows_total ',
    'memory_bytes By',
    'rate_rows_per_second ',
  ]);
  expect(data[0]).toMatchObject({
    dataPointType: DataPointType.SUM,
    isMonotonic: true,
    dataPoints: [{ ...point, attributes: { client: 'one' }, value: 3 }],
  });
});

test('a metric that OTLP does not know is an error, not a silence', async () => {
  const registry = new Registry();
  new Summary({ name: 'sizes', help: 'Sizes', registers: [registry] }).observe(1);
  const metrics = await registry.getMetricsAsJSON();
  expect(() => toMetricData(metrics, times)).toThrow('the metric sizes is a summary');
});
