import { ValueType } from '@opentelemetry/api';
import { millisToHrTime } from '@opentelemetry/core';
import {
  AggregationTemporality,
  type DataPoint,
  DataPointType,
  type Histogram,
  type MetricData,
} from '@opentelemetry/sdk-metrics';
import type { MetricObjectWithValues, MetricValue } from 'prom-client';

/** A value as prom-client tells it. Those of a histogram have a name each. */
type PrometheusValue = MetricValue<string> & { readonly metricName?: string };
type PrometheusMetric = MetricObjectWithValues<PrometheusValue>;

/** The times of all data points of an export. */
interface ExportTimes {
  /** When counting began. */
  readonly startedAtMs: number;
  readonly nowMs: number;
}

type Point = Omit<DataPoint<unknown>, 'value' | 'attributes'>;

/**
 * Turns metrics of Prometheus into metrics of OpenTelemetry. They keep their names, so rules and dashboards fit both
 * ways. Counters and histograms are cumulative. Values that are no numbers are left out, because JSON cannot hold them.
 * @throws TypeError if OpenTelemetry has no such type of metric
 */
export function toMetricData(metrics: readonly PrometheusMetric[], times: ExportTimes): MetricData[] {
  const [startTime, endTime] = [millisToHrTime(times.startedAtMs), millisToHrTime(times.nowMs)];
  return metrics
    .map((metric) => toOneMetric(metric, { startTime, endTime }))
    .filter(({ dataPoints }) => dataPoints.length > 0);
}

function toOneMetric(metric: PrometheusMetric, point: Point): MetricData {
  const { name, help: description, values } = metric;
  const base = {
    descriptor: { name, description, unit: toUnit(name), valueType: ValueType.DOUBLE },
    aggregationTemporality: AggregationTemporality.CUMULATIVE,
  };
  // The declarations of prom-client say a number. At run time it is a word.
  const type = String(metric.type);
  if (type === 'gauge') return { ...base, dataPointType: DataPointType.GAUGE, dataPoints: toNumbers(values, point) };
  if (type === 'counter') {
    const dataPoints = toNumbers(values, point);
    return { ...base, dataPointType: DataPointType.SUM, isMonotonic: true, dataPoints };
  }
  if (type === 'histogram')
    return { ...base, dataPointType: DataPointType.HISTOGRAM, dataPoints: toHistograms(name, values, point) };
  throw new TypeError(`the metric ${name} is a ${type}, which cannot be sent by OTLP`);
}

/** Returns the unit that the end of a name tells, by UCUM. Without one, a receiver adds nothing to the name. */
function toUnit(name: string): string {
  const [, word] = /_(seconds|bytes|days)(?:_total)?$/.exec(name) ?? [];
  return word === 'seconds' ? 's' : word === 'bytes' ? 'By' : word === 'days' ? 'd' : '';
}

const toNumbers = (values: readonly PrometheusValue[], point: Point): DataPoint<number>[] =>
  values
    .filter(({ value }) => Number.isFinite(value))
    .map(({ labels, value }) => ({ ...point, attributes: { ...labels }, value }));

/** Gathers the values of each histogram. A bucket of Prometheus counts what the smaller buckets count, too. */
function toHistograms(name: string, values: readonly PrometheusValue[], point: Point): DataPoint<Histogram>[] {
  const bySeries = Map.groupBy(values, ({ labels: { le: _, ...labels } }) => JSON.stringify(labels));
  return [...bySeries].map(([key, series]) => {
    const find = (end: string) => series.find(({ metricName }) => metricName === `${name}_${end}`)?.value ?? 0;
    const buckets = series.filter(({ metricName }) => metricName === `${name}_bucket`);
    const boundaries = buckets.map(({ labels }) => Number(labels.le)).filter(Number.isFinite);
    const counts = buckets.map(({ value }, index) => value - (buckets[index - 1]?.value ?? 0));
    const value = { buckets: { boundaries, counts }, sum: find('sum'), count: find('count') };
    return { ...point, attributes: JSON.parse(key) as Record<string, string>, value };
  });
}
