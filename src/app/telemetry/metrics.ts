import {
  JsonMetricsSerializer,
  MetricsExporterMetricsHelper,
  ProtobufMetricsSerializer,
} from '@opentelemetry/otlp-transformer';
import { MeterProvider, type MetricProducer, PeriodicExportingMetricReader } from '@opentelemetry/sdk-metrics';
import type { TelemetrySettings } from '../../../config/telemetry.ts';
import type { Metrics } from '../metrics/metrics.ts';
import { version } from '../version.ts';
import { type ExporterOptions, OtlpExporter } from './exporter.ts';
import { toMetricData } from './metric-data.ts';

const encoding = {
  json: JsonMetricsSerializer,
  protobuf: ProtobufMetricsSerializer,
  helper: MetricsExporterMetricsHelper,
};

/**
 * Starts to send the metrics of /metrics at an interval. They are read from the same registry, so no figure is counted
 * twice: /metrics and OTLP tell the same.
 */
export function startMetrics(
  settings: NonNullable<TelemetrySettings['metrics']>,
  metrics: Metrics,
  options: ExporterOptions,
): { readonly close: () => Promise<void> } {
  const startedAtMs = performance.timeOrigin;
  const producer: MetricProducer = {
    collect: async () => {
      const found = await metrics.read((registry) => registry.getMetricsAsJSON());
      const scope = { name: 'fulfilment-sync', version };
      const scopeMetrics = [{ scope, metrics: toMetricData(found, { startedAtMs, nowMs: Date.now() }) }];
      return { resourceMetrics: { resource: options.resource, scopeMetrics }, errors: [] };
    },
  };
  const { intervalMs, timeoutMs } = settings;
  const reader = new PeriodicExportingMetricReader({
    exporter: new OtlpExporter('metrics', settings, encoding, options),
    exportIntervalMillis: intervalMs,
    exportTimeoutMillis: Math.min(intervalMs, timeoutMs),
    metricProducers: [producer],
  });
  const provider = new MeterProvider({ resource: options.resource, readers: [reader] });
  return { close: () => provider.shutdown() };
}
