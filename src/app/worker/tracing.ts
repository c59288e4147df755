import { setTimeout as wait } from 'node:timers/promises';
import type { Config } from '../../../config/env.ts';
import type { QueueTelemetry } from '../../queue/backend.ts';
import { version } from '../version.ts';

/** Traces on their way to a collector. */
export interface Tracing {
  readonly telemetry: QueueTelemetry;
  /** Where they are sent, for people. */
  readonly endpoint: string;
  /** Sends what is left. */
  readonly close: () => Promise<void>;
}

/** So long may a collector take; one that is away must not keep a worker from stopping. */
const exportMs = 2_000;

/**
 * Sends traces of queued jobs and of requests to the service to OTEL_EXPORTER_OTLP_ENDPOINT by OTLP over HTTP; null where
 * none is set, and nothing of it is loaded then. A span of a request holds method, path and status; no query (which has
 * order numbers), no header and no body.
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
  // The exporter uses the HTTP client of Node, not undici: it gets the proxies in its own way.
  const httpAgentOptions = { keepAlive: true, proxyEnv: { HTTP_PROXY, HTTPS_PROXY, NO_PROXY } };
  const exporter = new otlp.OTLPTraceExporter({ url, timeoutMillis: exportMs, httpAgentOptions });
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
        startSpanHook: ({ origin, path }) => ({ 'url.full': `${origin}${path.split('?', 1)[0]}`, 'url.query': '' }),
      }),
    ],
  });
  return {
    endpoint: new URL(url).origin,
    telemetry: new bullmq.BullMQOtel({ tracerName: 'fulfilment-sync', version }),
    close: async () => {
      stop();
      // What a collector does not take within moments is lost; no order depends on it.
      await Promise.race([provider.shutdown().catch(() => undefined), wait(exportMs, undefined, { ref: false })]);
    },
  };
}
