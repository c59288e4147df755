import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gunzipSync } from 'node:zlib';
import { afterEach } from 'vitest';

/** A request of an exporter. */
interface OtlpRequest {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

interface KeyValue {
  readonly key: string;
  readonly value: { readonly stringValue?: string; readonly intValue?: number; readonly doubleValue?: number };
}

/** A point of a gauge, a sum or a histogram, in JSON. */
export interface OtlpPoint {
  readonly attributes: readonly KeyValue[];
  readonly startTimeUnixNano: string;
  readonly asDouble?: number;
  readonly count?: number;
  readonly sum?: number;
  readonly bucketCounts?: readonly number[];
  readonly explicitBounds?: readonly number[];
}

/** A metric, in JSON. */
export interface OtlpMetric {
  readonly name: string;
  readonly unit: string;
  readonly gauge?: { readonly dataPoints: readonly OtlpPoint[] };
  readonly sum?: { readonly dataPoints: readonly OtlpPoint[]; readonly isMonotonic: boolean };
  readonly histogram?: { readonly dataPoints: readonly OtlpPoint[] };
}

/** A span, in JSON. */
export interface OtlpSpan {
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly attributes: readonly KeyValue[];
}

/** Returns attributes by name. */
export const readAttributes = (attributes: readonly KeyValue[]) =>
  Object.fromEntries(
    attributes.map(({ key, value }) => [key, value.stringValue ?? value.intValue ?? value.doubleValue]),
  );

/** Starts receivers of OTLP over HTTP, and closes them at the end of each test. */
export function useOtlpReceiver() {
  const closers: (() => void)[] = [];
  afterEach(() => {
    for (const close of closers.splice(0)) close();
  });
  /**
   * @param answer returns the HTTP status of each answer; null: no answer
   * @param body returns the content of each answer
   */
  return async (answer: () => number | null = () => 200, body: () => string = () => '{}') => {
    const requests: OtlpRequest[] = [];
    const server = createServer((asked, reply) => {
      const pieces: Buffer[] = [];
      asked.on('data', (piece: Buffer) => pieces.push(piece));
      asked.on('end', () => {
        const { url: path = '', headers } = asked;
        const whole = Buffer.concat(pieces);
        requests.push({ path, headers, body: headers['content-encoding'] === 'gzip' ? gunzipSync(whole) : whole });
        const status = answer();
        if (status !== null) reply.writeHead(status, { 'content-type': 'application/json' }).end(body());
      });
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    closers.push(() => server.close().closeAllConnections());
    const read = <T>(path: string) =>
      requests.filter((request) => request.path.endsWith(path)).map(({ body }) => JSON.parse(body.toString()) as T);
    type Resource = { readonly resource: { readonly attributes: readonly KeyValue[] } };
    type Metrics = {
      resourceMetrics: readonly (Resource & { scopeMetrics: readonly { metrics: readonly OtlpMetric[] }[] })[];
    };
    type Spans = { resourceSpans: readonly (Resource & { scopeSpans: readonly { spans: readonly OtlpSpan[] }[] })[] };
    return {
      url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
      requests,
      /** Returns the metrics of each export in JSON, by name. */
      exports: () =>
        read<Metrics>('/v1/metrics').map(
          ({ resourceMetrics }) =>
            new Map(
              resourceMetrics
                .flatMap(({ scopeMetrics }) => scopeMetrics.flatMap(({ metrics }) => metrics))
                .map((metric) => [metric.name, metric]),
            ),
        ),
      spans: () =>
        read<Spans>('/v1/traces').flatMap(({ resourceSpans }) =>
          resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans)),
        ),
      resources: () =>
        [
          ...read<Metrics>('/v1/metrics').flatMap(({ resourceMetrics }) => resourceMetrics),
          ...read<Spans>('/v1/traces').flatMap(({ resourceSpans }) => resourceSpans),
        ].map(({ resource }) => readAttributes(resource.attributes)),
    };
  };
}

/** Reads the fields of a message of Protocol Buffers by their numbers. Texts and messages are left as bytes. */
export function readMessage(bytes: Buffer): Map<number, Buffer[]> {
  const fields = new Map<number, Buffer[]>();
  let at = 0;
  const readNumber = () => {
    for (let [value, factor] = [0, 1]; ; factor *= 128) {
      const byte = bytes.readUInt8(at++);
      value += (byte & 127) * factor;
      if (byte < 128) return value;
    }
  };
  while (at < bytes.length) {
    const tag = readNumber();
    const [field, wire] = [Math.floor(tag / 8), tag % 8];
    let begin = at;
    const length = wire === 1 ? 8 : wire === 5 ? 4 : readNumber();
    if (wire === 2) begin = at;
    if (wire !== 0) at = begin + length;
    fields.set(field, [...(fields.get(field) ?? []), bytes.subarray(begin, at)]);
  }
  return fields;
}
