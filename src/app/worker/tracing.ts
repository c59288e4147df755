import { setTimeout as wait } from 'node:timers/promises';
import type { Config } from '../../../config/env.ts';
import type { QueueTelemetry } from '../../queue/backend.ts';
import { version } from '../version.ts';

/** The connection to a collector of traces. */
export interface Tracing {
  readonly telemetry: QueueTelemetry;
  /** Origin of the collector, for the log. */
  readonly endpoint: string;
  /** Sends the remaining traces, and stops. */
  readonly close: () => Promise<void>;
}

/** Timeout of an export in milliseconds. A collector that is away must not delay the stop of a worker. */
const exportTimeoutMs = 2_000;

/**
 * Starts to send traces of queued jobs and of requests to OTEL_EXPORTER_OTLP_ENDPOINT, by OTLP over HTTP. If that is
 * not set, returns null and loads no library. The span of a request has method, path and status. It has no header, no
 * body and no query, because queries have order numbers.
 */
export async function startTracing(config: Config): Promise<Tracing | null> {
  const { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint, HTTP_PROXY, HTTPS_PROXY, NO_PROXY } = config;
  if (endpoint === undefined) return null;
  const [node, otlp, resources, instrumentation, undici, bullmq] = await Promise.all([
    import('@opentelemetry/sdk-trace-node'),
    import('@opentelemetry/exporter-trace-otlp-http'),
    import('@opentelemetry/resources'),
    import('@opentelemetry/instrumentation'),
    import('@opentelemetry/instrumentation-undici'),
    import('bullmq-otel'),
  ]);
  const url = `${endpoint.replace(/(?<!\/)\/+$/, '')}/v1/traces`;
  // The exporter uses the HTTP client of Node, not undici, so it needs the proxies in another form.
  const httpAgentOptions = { keepAlive: true, proxyEnv: { HTTP_PROXY, HTTPS_PROXY, NO_PROXY } };
  const exporter = new otlp.OTLPTraceExporter({ url, timeoutMillis: exportTimeoutMs, httpAgentOptions });
  const provider = new node.NodeTracerProvider({
    resource: resources.resourceFromAttributes({ 'service.name': 'fulfilment-sync', 'service.version': version }),
    spanProcessors: [new node.BatchSpanProcessor(exporter)],
  });
  provider.register();
  const stop = instrumentation.registerInstrumentations({
    tracerProvider: provider,
    instrumentations: [
      new undici.UndiciInstrumentation({
        requireParentforSpans: false,
        // The path of the receiver of alerts may be secret.
        ignoreRequestHook: ({ headers }) => [headers].flat(2).some((header) => /\bwebhook-id\b/.test(header)),
        startSpanHook: ({ origin, path }) => ({ 'url.full': `${origin}${path.split('?', 1)[0]}`, 'url.query': '' }),
      }),
    ],
  });
  return {
    endpoint: new URL(url).origin,
    telemetry: new bullmq.BullMQOtel({ tracerName: 'fulfilment-sync', version }),
    close: async () => {
      stop();
      // Traces that the collector does not take in this time are dropped. Nothing depends on them.
      await Promise.race([
        provider.shutdown().catch(() => undefined),
        wait(exportTimeoutMs, undefined, { ref: false }),
      ]);
    },
  };
}
