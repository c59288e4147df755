import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach } from 'vitest';

/** A request of an exporter. */
interface OtlpRequest {
  readonly path: string;
  readonly body: Buffer;
}

interface KeyValue {
  readonly key: string;
  readonly value: {
    readonly stringValue?: string;
    readonly intValue?: number;
    readonly doubleValue?: number;
  };
}

/** A span, in JSON. */
interface OtlpSpan {
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly attributes: readonly KeyValue[];
}

interface ResourceSpans {
  readonly resource: { readonly attributes: readonly KeyValue[] };
  readonly scopeSpans: readonly { readonly spans: readonly OtlpSpan[] }[];
}

/** Returns attributes by name. */
export const readAttributes = (attributes: readonly KeyValue[]) =>
  Object.fromEntries(
    attributes.map(({ key, value }) => [
      key,
      value.stringValue ?? value.intValue ?? value.doubleValue,
    ]),
  );

/** Starts receivers of OTLP over HTTP, and closes them at the end of each test. */
export function useOtlpReceiver() {
  const closers: (() => void)[] = [];
  afterEach(() => {
    for (const close of closers.splice(0)) close();
  });
  /** @param answer returns the HTTP status of each answer; null: no answer */
  return async (answer: () => number | null = () => 200) => {
    const requests: OtlpRequest[] = [];
    const server = createServer((asked, reply) => {
      const pieces: Buffer[] = [];
      asked.on('data', (piece: Buffer) => pieces.push(piece));
      asked.on('end', () => {
        requests.push({ path: asked.url ?? '', body: Buffer.concat(pieces) });
        const status = answer();
        if (status !== null)
          reply.writeHead(status, { 'content-type': 'application/json' }).end('{}');
      });
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    closers.push(() => server.close().closeAllConnections());
    const read = () =>
      requests.flatMap(
        ({ body }) =>
          (JSON.parse(body.toString()) as { resourceSpans: ResourceSpans[] }).resourceSpans,
      );
    return {
      url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
      requests,
      spans: () => read().flatMap(({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans)),
      resources: () => read().map(({ resource }) => readAttributes(resource.attributes)),
    };
  };
}
