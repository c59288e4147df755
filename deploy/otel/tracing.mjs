/**
 * Sends traces by OTLP with the SDK of OpenTelemetry: spans of queued jobs, of pushed outbox rows, and of requests to the
 * service. Log lines within a span have its `trace_id` and `span_id`.
 *
 * 1. Install the SDK beside this file. The API must be 1.10 or newer:
 *      npm install @opentelemetry/api @opentelemetry/sdk-node @opentelemetry/instrumentation-undici
 * 2. Load this file before the worker, also in a container (mount the folder with its node_modules):
 *      NODE_OPTIONS=--import=/etc/fulfilment-sync/otel/tracing.mjs
 * 3. Configure the SDK with its own variables (https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/):
 *      OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318
 *      OTEL_TRACES_SAMPLER=parentbased_traceidratio and OTEL_TRACES_SAMPLER_ARG=0.1 record a tenth of the traces.
 *      OTEL_LOG_LEVEL=error writes failed exports to standard error.
 *
 * Metrics need no SDK: a collector reads /metrics (collector.yaml).
 */
import { UndiciInstrumentation } from '@opentelemetry/instrumentation-undici';
import { NodeSDK } from '@opentelemetry/sdk-node';

process.env.OTEL_SERVICE_NAME ??= 'fulfilment-sync';
// Only traces, unless the operator asks for more.
process.env.OTEL_METRICS_EXPORTER ??= 'none';
process.env.OTEL_LOGS_EXPORTER ??= 'none';

const requests = new UndiciInstrumentation({
  // The path of the receiver of alerts may be secret.
  ignoreRequestHook: ({ headers }) =>
    [headers].flat(2).some((header) => /\bwebhook-id\b/.test(header)),
  // Queries have order numbers.
  startSpanHook: ({ origin, path }) => ({
    'url.full': `${origin}${path.split('?', 1)[0]}`,
    'url.query': '',
  }),
});
const sdk = new NodeSDK({ instrumentations: [requests] });
sdk.start();
// A worker ends by itself after SIGTERM. Then the last spans are sent.
process.once('beforeExit', () => sdk.shutdown());
