import { text } from 'node:stream/consumers';
import { expect, test } from 'vitest';
import { useDatabase } from '../../helpers/database.ts';
import { insertOrders } from '../../helpers/order-payload.ts';
import { tracingOptions, useProcesses, workerEnv } from '../../helpers/processes/processes.ts';
import { useServices } from '../../helpers/processes/service.ts';
import { waitFor } from '../../helpers/wait.ts';

const database = useDatabase();
const processes = useProcesses();
const services = useServices();

interface KeyValue {
  readonly key: string;
  readonly value: { readonly stringValue?: string; readonly intValue?: number };
}

/** A span, in JSON. */
interface Span {
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly attributes: readonly KeyValue[];
}

interface ResourceSpans {
  readonly resource: { readonly attributes: readonly KeyValue[] };
  readonly scopeSpans: readonly { readonly spans: readonly Span[] }[];
}

/** Returns attributes by name. */
const readAttributes = (attributes: readonly KeyValue[]) =>
  Object.fromEntries(
    attributes.map(({ key, value }) => [key, value.stringValue ?? value.intValue]),
  );

test('deploy/otel sends spans of jobs, pushes and requests, and log lines have their ids', async () => {
  const received: ResourceSpans[] = [];
  const { url, requests } = await services.start(async (asked, reply) => {
    const body = JSON.parse(await text(asked)) as { resourceSpans: ResourceSpans[] };
    received.push(...body.resourceSpans);
    reply.end('{}');
  });
  const spans = () =>
    received.flatMap(({ scopeSpans }) => scopeSpans.flatMap((scope) => scope.spans));
  const find = (id: unknown) => spans().find(({ spanId }) => spanId === id);
  const worker = processes.cli(
    ['worker'],
    workerEnv(database.url, await processes.sandbox(), {
      SCHEDULE_PULL_SHIPMENTS: '1s',
      NODE_OPTIONS: tracingOptions,
      OTEL_EXPORTER_OTLP_ENDPOINT: `${url.href}/`,
      OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
      OTEL_BSP_SCHEDULE_DELAY: '100',
    }),
  );
  const readEvents = (event: string) =>
    worker.lines
      .filter((line) => line.includes(`"event":"${event}"`))
      .map((line) => JSON.parse(line) as Record<string, unknown>);
  await insertOrders(database, 1, 3);
  await waitFor('three orders', () => readEvents('push_done').length === 3);
  await worker.line('"event":"run_done"');
  const lines = () => [...readEvents('push_done'), ...readEvents('run_done').slice(0, 1)];
  await waitFor('the spans of these lines', () => lines().every(({ span_id }) => find(span_id)));
  worker.kill('SIGTERM');
  expect((await worker.ended).code).toBe(0);

  for (const { outbox, trace_id, span_id } of readEvents('push_done')) {
    const span = find(span_id);
    expect(span).toMatchObject({ name: 'push order.create', traceId: trace_id });
    expect(span?.parentSpanId ?? '').toBe('');
    expect(readAttributes(span?.attributes ?? [])).toEqual({
      'fulfilment.client': 'default',
      'fulfilment.outbox': outbox,
      'fulfilment.kind': 'order.create',
      'fulfilment.status': 'done',
    });
    const children = spans().filter(({ parentSpanId }) => parentSpanId === span_id);
    expect(children.map(({ name }) => name)).toContain('POST');
  }
  expect(new Set(readEvents('push_done').map(({ trace_id }) => trace_id)).size).toBe(3);
  const [run] = readEvents('run_done');
  expect(find(run?.span_id)).toMatchObject({
    name: `run ${run?.job}`,
    traceId: run?.trace_id,
  });
  expect(new Set(requests.map(({ path }) => path))).toEqual(new Set(['/base/v1/traces']));
  for (const { resource } of received)
    expect(readAttributes(resource.attributes)['service.name']).toBe('fulfilment-sync');
});
