import { expect, test } from 'vitest';
import { useDatabase } from '../../helpers/database.ts';
import { orderPayload } from '../../helpers/order-payload.ts';
import { useProcesses, workerEnv } from '../../helpers/processes/processes.ts';
import { type OtlpPoint, readAttributes, readMessage, useOtlpReceiver } from '../../helpers/services/otlp-receiver.ts';
import { waitFor } from '../../helpers/wait.ts';

const database = useDatabase();
const processes = useProcesses();
const receive = useOtlpReceiver();
const insertOrder = (reference: string) =>
  database.query(`insert into fulfilment.outbox (kind, reference, payload) values ('order.create', $1, $2)`, [
    reference,
    JSON.stringify(orderPayload(reference)),
  ]);

/** Starts a worker with these settings of telemetry. */
async function startWorker(env: Record<string, string>) {
  const worker = processes.cli(
    ['worker'],
    workerEnv(database.url, await processes.sandbox(), { SCHEDULE_PULL_SHIPMENTS: '1s', ...env }),
  );
  const { port } = JSON.parse(await worker.line('admin_listening')) as { port: number };
  await worker.line('worker_started');
  const stop = async () => {
    worker.kill('SIGTERM');
    return (await worker.ended).code;
  };
  return { worker, port, stop };
}

/** Returns the lines of the log with an event. */
const readEvents = (lines: readonly string[], event: string) =>
  lines
    .filter((line) => line.includes(`"event":"${event}"`))
    .map((line) => JSON.parse(line) as Record<string, unknown>);

/** Returns the value of a series at /metrics and in an export. */
const findPoint = (points: readonly OtlpPoint[] | undefined, labels: object) =>
  points?.find(({ attributes }) => JSON.stringify(readAttributes(attributes)) === JSON.stringify(labels));

test('metrics and traces are sent as the OTEL_* variables say, and tell the same as /metrics', async () => {
  const receiver = await receive();
  const { worker, port, stop } = await startWorker({
    OTEL_EXPORTER_OTLP_ENDPOINT: `${receiver.url}/otlp/`,
    OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
    OTEL_EXPORTER_OTLP_COMPRESSION: 'gzip',
    OTEL_EXPORTER_OTLP_HEADERS: 'authorization=Bearer%20kanarie,x-scope=general',
    OTEL_EXPORTER_OTLP_METRICS_HEADERS: 'x-scope=figures',
    OTEL_SERVICE_NAME: 'erp-sync',
    OTEL_RESOURCE_ATTRIBUTES: 'service.name=other,deployment.environment.name=te%73t',
    OTEL_METRIC_EXPORT_INTERVAL: '500',
  });
  await insertOrder('SO-1');
  await worker.line('"event":"push_done"');
  const labels = { client: 'default', kind: 'order.create', step: 'sent', outcome: 'done' };
  const attempts = () => receiver.exports().at(-1)?.get('fulfilment_push_attempts_total')?.sum;
  await waitFor('the attempt in an export', () => findPoint(attempts()?.dataPoints, labels));
  const scraped = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  // The second export from now has begun after the scrape.
  const count = receiver.exports().length;
  const exported = await waitFor('two more exports', () => receiver.exports()[count + 1]);
  expect(await stop()).toBe(0);

  expect(findPoint(attempts()?.dataPoints, labels)?.asDouble).toBe(1);
  expect(attempts()?.isMonotonic).toBe(true);
  expect(scraped).toContain(
    'fulfilment_push_attempts_total{client="default",kind="order.create",step="sent",outcome="done"} 1',
  );
  // Requests are active only at some moments.
  const withValues = [...scraped.matchAll(/^# TYPE (\S+) .*\n(?!#|\n)/gm)]
    .map(([, name]) => name)
    .filter((name) => name !== 'nodejs_active_requests');
  expect(withValues.length).toBeGreaterThan(40);
  expect(withValues.filter((name) => name !== undefined && !exported.has(name))).toEqual([]);
  expect(receiver.exports().at(-1)?.get('fulfilment_database_up')?.gauge?.dataPoints[0]?.asDouble).toBe(1);
  expect(exported.get('process_cpu_seconds_total')?.unit).toBe('s');

  for (const { path, headers } of receiver.requests) {
    const isMetrics = path === '/otlp/v1/metrics';
    expect(path).toMatch(/^\/otlp\/v1\/(traces|metrics)$/);
    expect(headers['content-type']).toBe('application/json');
    expect([headers.authorization, headers['x-scope']]).toEqual(
      isMetrics ? [undefined, 'figures'] : ['Bearer kanarie', 'general'],
    );
  }
  for (const resource of receiver.resources())
    expect(resource).toMatchObject({ 'service.name': 'erp-sync', 'deployment.environment.name': 'test' });
  expect(worker.output).not.toContain('kanarie');
});

test('a log line within a span has its ids: of the run, or of the attempt to push its row', async () => {
  const receiver = await receive();
  const { worker, stop } = await startWorker({
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${receiver.url}/v1/traces`,
    OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
  });
  await Promise.all(['SO-1', 'SO-2', 'SO-3'].map(insertOrder));
  await waitFor('three orders', () => readEvents(worker.lines, 'push_done').length === 3);
  await worker.line('"event":"run_done"');
  expect(await stop()).toBe(0);
  const spans = new Map(receiver.spans().map((span) => [span.spanId, span]));
  const pushed = readEvents(worker.lines, 'push_done').map(({ outbox, trace_id, span_id }) => {
    const span = spans.get(String(span_id));
    expect(span).toMatchObject({ name: 'push order.create', traceId: trace_id });
    expect(readAttributes(span?.attributes ?? [])).toEqual({
      'fulfilment.client': 'default',
      'fulfilment.outbox': outbox,
      'fulfilment.kind': 'order.create',
      'fulfilment.status': 'done',
    });
    expect(span?.parentSpanId ?? '').toBe('');
    expect([...spans.values()].some(({ parentSpanId, name }) => parentSpanId === span_id && name === 'POST')).toBe(
      true,
    );
    return trace_id;
  });
  expect(new Set(pushed).size).toBe(3);
  const [run] = readEvents(worker.lines, 'run_done');
  expect(spans.get(String(run?.span_id))?.traceId).toBe(run?.trace_id);
  expect(readEvents(worker.lines, 'worker_started')[0]).not.toHaveProperty('trace_id');
  expect(readEvents(worker.lines, 'metrics_export_started')).toEqual([]);
  expect(receiver.requests.every(({ path }) => path === '/v1/traces')).toBe(true);
});

test('a worker that SIGHUP restarts sends traces and metrics, counted on', async () => {
  const receiver = await receive();
  const { worker, stop } = await startWorker({
    OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
    OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
  });
  await insertOrder('SO-1');
  await waitFor('an order', () => readEvents(worker.lines, 'push_done').length === 1);
  worker.kill('SIGHUP');
  await worker.line('"event":"worker_restarted"');
  await insertOrder('SO-2');
  await waitFor('another order', () => readEvents(worker.lines, 'push_done').length === 2);
  const runs = () => readEvents(worker.lines, 'run_done');
  const before = runs().length;
  await waitFor('a run', () => runs().length > before);
  expect(await stop()).toBe(0);
  const spans = new Map(receiver.spans().map((span) => [span.spanId, span]));
  const [first, second] = readEvents(worker.lines, 'push_done').map(({ span_id }) => String(span_id));
  for (const id of [first, second]) expect(spans.get(String(id))).toMatchObject({ name: 'push order.create' });
  const requests = [...spans.values()].filter(({ parentSpanId }) => parentSpanId === second);
  const paths = requests.map(({ attributes }) => readAttributes(attributes)['url.path']);
  expect(paths.filter((path) => path === '/v3/orders')).toHaveLength(1);
  expect(spans.get(String(runs().at(-1)?.span_id))?.traceId).toBe(runs().at(-1)?.trace_id);
  const attempts = receiver.exports().at(-1)?.get('fulfilment_push_attempts_total')?.sum;
  const labels = { client: 'default', kind: 'order.create', step: 'sent', outcome: 'done' };
  expect(findPoint(attempts?.dataPoints, labels)?.asDouble).toBe(2);
});

test('a worker that is stopped sends its metrics once more, by protobuf unless told otherwise', async () => {
  const receiver = await receive();
  const { worker, stop } = await startWorker({ OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: `${receiver.url}/figures` });
  await worker.line('"event":"run_done"');
  expect(await stop()).toBe(0);
  expect(receiver.requests.map(({ path }) => path)).toEqual(['/figures']);
  const [{ headers, body } = { headers: {}, body: Buffer.alloc(0) }] = receiver.requests;
  expect(headers['content-type']).toBe('application/x-protobuf');
  // ExportMetricsServiceRequest, ResourceMetrics, ScopeMetrics, Metric: opentelemetry-proto, metrics.proto
  const messages = (from: Buffer[], field: number) => from.flatMap((bytes) => readMessage(bytes).get(field) ?? []);
  const metrics = messages(messages(messages([body], 1), 2), 2);
  const names = messages(metrics, 1).map(String);
  expect(names).toEqual(
    expect.arrayContaining([
      'fulfilment_runs_total',
      'fulfilment_stream_lag_seconds',
      'fulfilment_run_duration_seconds',
    ]),
  );
  expect(readEvents(worker.lines, 'run_done')[0]).not.toHaveProperty('trace_id');
});

test('a receiver that fails disturbs nothing, and is said once when it begins and once when it ends', async () => {
  let status = 400;
  const receiver = await receive(() => status);
  const { worker, stop } = await startWorker({
    OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
    OTEL_TRACES_EXPORTER: 'none',
    OTEL_METRIC_EXPORT_INTERVAL: '200',
  });
  const failed = JSON.parse(await worker.line('telemetry_failed')) as object;
  expect(failed).toMatchObject({
    level: 'warn',
    task: 'metrics',
    endpoint: receiver.url,
    code: 'telemetry_failed',
    error: expect.stringContaining('HTTP 400'),
  });
  const before = receiver.requests.length;
  await waitFor('three more exports', () => receiver.requests.length > before + 2);
  await insertOrder('SO-1');
  await worker.line('"event":"push_done"');
  status = 200;
  await worker.line('telemetry_recovered');
  expect(readEvents(worker.lines, 'telemetry_failed')).toHaveLength(1);
  expect(await stop()).toBe(0);
});

test('a receiver that takes only a part is said once when it begins and once when it ends', async () => {
  let body = JSON.stringify({ partialSuccess: { rejectedDataPoints: '7', errorMessage: 'too many series' } });
  const receiver = await receive(
    () => 200,
    () => body,
  );
  const { worker, stop } = await startWorker({
    OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
    OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
    OTEL_TRACES_EXPORTER: 'none',
    OTEL_METRIC_EXPORT_INTERVAL: '200',
  });
  expect(JSON.parse(await worker.line('telemetry_failed'))).toMatchObject({
    task: 'metrics',
    error: expect.stringContaining('the receiver refused 7 of the spans or points'),
  });
  const before = receiver.requests.length;
  await waitFor('three more exports', () => receiver.requests.length > before + 2);
  body = '{}';
  await worker.line('telemetry_recovered');
  expect(readEvents(worker.lines, 'telemetry_failed')).toHaveLength(1);
  expect(await stop()).toBe(0);
});

test.each([
  ['refuses connections', async () => 'http://127.0.0.1:9'],
  ['never answers', async () => (await receive(() => null)).url],
])('a receiver that %s does not keep the worker from its work or its end', async (_, start) => {
  const { worker, stop } = await startWorker({
    OTEL_EXPORTER_OTLP_ENDPOINT: await start(),
    OTEL_EXPORTER_OTLP_TIMEOUT: '60000',
    OTEL_METRIC_EXPORT_INTERVAL: '200',
  });
  await insertOrder('SO-1');
  await worker.line('"event":"push_done"');
  expect(await stop()).toBe(0);
  expect(readEvents(worker.lines, 'worker_stopped')).toHaveLength(1);
  expect(readEvents(worker.lines, 'telemetry_failed').length).toBeLessThan(3);
});
