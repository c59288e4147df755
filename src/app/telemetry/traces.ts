import { context, propagation, ROOT_CONTEXT, SpanStatusCode, type Tracer, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { W3CTraceContextPropagator } from '@opentelemetry/core';
import { UndiciInstrumentation } from '@opentelemetry/instrumentation-undici';
import {
  JsonTraceSerializer,
  ProtobufTraceSerializer,
  TraceExporterMetricsHelper,
} from '@opentelemetry/otlp-transformer';
import {
  BatchSpanProcessor,
  ParentBasedSampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace';
import { BullMQOtel } from 'bullmq-otel';
import type { TelemetrySettings, TraceSampling } from '../../../config/telemetry.ts';
import type { QueueTelemetry } from '../../queue/backend.ts';
import type { PushSpans } from '../../sync/push/attempt.ts';
import { outboxKinds } from '../../sync/push/kinds/registry.ts';
import { version } from '../version.ts';
import { type ExporterOptions, OtlpExporter } from './exporter.ts';

const encoding = { json: JsonTraceSerializer, protobuf: ProtobufTraceSerializer, helper: TraceExporterMetricsHelper };

/** Traces of the work of this process. */
export interface Tracing {
  /** Makes a span of each queued job. */
  readonly queue: QueueTelemetry;
  /** Makes a span of each attempt to push a row. */
  readonly push: PushSpans;
  readonly close: () => Promise<void>;
}

/**
 * Starts to send traces of queued jobs, of pushed rows and of requests. The span of a request has method, path and
 * status. It has no header, no body and no query, because queries have order numbers.
 */
export function startTracing(settings: NonNullable<TelemetrySettings['traces']>, options: ExporterOptions): Tracing {
  const exporter = new OtlpExporter('traces', settings, encoding, options);
  const provider = new TracerProvider({
    resource: options.resource,
    sampler: createSampler(settings.sampling),
    spanProcessors: [new BatchSpanProcessor({ exporter, exportTimeoutMillis: settings.timeoutMs })],
  });
  trace.setGlobalTracerProvider(provider);
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  propagation.setGlobalPropagator(new W3CTraceContextPropagator());
  const requests = new UndiciInstrumentation({
    requireParentforSpans: false,
    // The path of the receiver of alerts may be secret.
    ignoreRequestHook: ({ headers }) => [headers].flat(2).some((header) => /\bwebhook-id\b/.test(header)),
    startSpanHook: ({ origin, path }) => ({ 'url.full': `${origin}${path.split('?', 1)[0]}`, 'url.query': '' }),
  });
  requests.setTracerProvider(provider);
  return {
    queue: new BullMQOtel({ tracerName: 'fulfilment-sync', version }),
    push: createPushSpans(provider.getTracer('fulfilment-sync', version)),
    close: async () => {
      requests.disable();
      // A worker that restarts sets them again, which OpenTelemetry refuses while they are set.
      for (const api of [trace, context, propagation]) api.disable();
      await provider.shutdown();
    },
  };
}

function createSampler({ parentBased, share }: TraceSampling) {
  const root = new TraceIdRatioBasedSampler(share);
  return parentBased ? new ParentBasedSampler({ root }) : root;
}

/** Makes a trace of each attempt. Attempts begin from within others, so each begins without a parent. */
function createPushSpans(tracer: Tracer): PushSpans {
  // The ERP may write any kind into a row, so an unknown kind is not named.
  const known = new Set(outboxKinds.map(({ name }) => name));
  return (row, attempt) => {
    const kind = known.has(row.kind) ? row.kind : 'unknown';
    const attributes = {
      'fulfilment.client': row.client,
      'fulfilment.outbox': row.id,
      'fulfilment.kind': kind,
    };
    const span = tracer.startSpan(`push ${kind}`, { root: true, attributes });
    return context.with(trace.setSpan(ROOT_CONTEXT, span), async () => {
      try {
        return await attempt((status) => {
          span.setAttribute('fulfilment.status', status);
          if (status !== 'done') span.setStatus({ code: SpanStatusCode.ERROR });
        });
      } finally {
        span.end();
      }
    });
  };
}

/** Returns the ids of the current span, by the names that OpenTelemetry gives them in logs; nothing without a span. */
export function readSpanIds(): object {
  const span = trace.getActiveSpan()?.spanContext();
  return span === undefined ? {} : { trace_id: span.traceId, span_id: span.spanId };
}
