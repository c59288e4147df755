/**
 * Traces and metrics by OTLP, the protocol of OpenTelemetry. Nothing of this folder is loaded unless an endpoint is set.
 * Telemetry is sent beside the work: nothing waits for its receiver, and nothing is lost with it but telemetry.
 */

import { setTimeout as wait } from 'node:timers/promises';
import { resourceFromAttributes } from '@opentelemetry/resources';
import type { Config } from '../../../config/env.ts';
import { workerName } from '../deps/database.ts';
import type { Logger } from '../logging/logger.ts';
import type { Metrics } from '../metrics/metrics.ts';
import { version } from '../version.ts';
import type { ExporterOptions } from './exporter.ts';
import type { Tracing } from './traces.ts';

/** Maximum milliseconds of the last export. A receiver that is away must not delay the stop of a worker. */
const closeTimeoutMs = 5_000;

/** The telemetry of this process. */
export interface Telemetry {
  /** Null if traces are not sent. */
  readonly tracing: Tracing | null;
  /** Sends what is left, for at most 5 seconds, and stops. */
  readonly close: () => Promise<void>;
}

/** Starts to send traces and metrics, as the settings say. */
export async function startTelemetry(
  config: Config,
  settings: NonNullable<Config['telemetry']>,
  metrics: Metrics,
  log: Logger,
): Promise<Telemetry> {
  const { HTTP_PROXY, HTTPS_PROXY, NO_PROXY } = config;
  const resource = resourceFromAttributes({
    'service.version': version,
    'service.instance.id': workerName(),
    ...settings.resource,
    'service.name': settings.serviceName,
  });
  const options: ExporterOptions = { resource, proxies: { HTTP_PROXY, HTTPS_PROXY, NO_PROXY }, log };
  const tracing =
    settings.traces === null ? null : (await import('./traces.ts')).startTracing(settings.traces, options);
  const meter =
    settings.metrics === null ? null : (await import('./metrics.ts')).startMetrics(settings.metrics, metrics, options);
  for (const [event, target] of [
    ['tracing_started', settings.traces],
    ['metrics_export_started', settings.metrics],
  ] as const)
    if (target !== null) log.info({ event, endpoint: new URL(target.url).origin });
  return {
    tracing,
    close: async () => {
      // An export that fails is logged by its exporter. Nothing depends on it.
      const closing = Promise.allSettled([tracing?.close(), meter?.close()]);
      await Promise.race([closing, wait(closeTimeoutMs, undefined, { ref: false })]);
    },
  };
}
