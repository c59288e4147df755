import { type ExportResult, ExportResultCode } from '@opentelemetry/core';
import { createOtlpHttpExportDelegate, httpAgentFactoryFromOptions } from '@opentelemetry/otlp-exporter-base/node-http';
import type { IExporterMetricsHelper, ISerializer } from '@opentelemetry/otlp-transformer';
import type { Resource } from '@opentelemetry/resources';
import { z } from 'zod';
import type { Config } from '../../../config/env.ts';
import type { SignalTarget } from '../../../config/telemetry.ts';
import { CodedError } from '../../core/errors.ts';
import { errorFields, type Logger } from '../logging/logger.ts';

/** Number of exports that may be under way. Further ones are dropped, because a slow receiver must not fill the memory. */
const concurrencyLimit = 4;

/** What all exporters of this process share. */
export interface ExporterOptions {
  readonly resource: Resource;
  readonly proxies: Pick<Config, 'HTTP_PROXY' | 'HTTPS_PROXY' | 'NO_PROXY'>;
  readonly log: Logger;
}

/** How a kind of telemetry is written. */
export interface Encoding<T> {
  readonly json: ISerializer<T, unknown>;
  readonly protobuf: ISerializer<T, unknown>;
  readonly helper: IExporterMetricsHelper<T>;
}

/** An answer that takes the request, but not all of its contents. The numbers are texts in JSON. */
const partialAnswer = z.object({
  partialSuccess: z.object({
    rejectedSpans: z.coerce.number().optional(),
    rejectedDataPoints: z.coerce.number().optional(),
  }),
});

/** Returns how many spans or points of a request the receiver did not take. */
function countRefused(answer: unknown): number {
  const { data } = partialAnswer.safeParse(answer);
  return data?.partialSuccess.rejectedSpans ?? data?.partialSuccess.rejectedDataPoints ?? 0;
}

/** Sends telemetry by OTLP over HTTP. It is an exporter for spans and for metrics alike. */
export class OtlpExporter<T> {
  readonly #task: 'traces' | 'metrics';
  readonly #delegate: ReturnType<typeof createOtlpHttpExportDelegate<T, unknown>>;
  readonly #log: Logger;
  readonly #endpoint: string;
  #isFailing = false;
  /** Number of spans or points that the receiver did not take. Set by an answer, and cleared when it is reported. */
  #refused = 0;

  constructor(
    task: 'traces' | 'metrics',
    { url, headers, encoding, compression, timeoutMs }: SignalTarget,
    serializers: Encoding<T>,
    { proxies, log }: ExporterOptions,
  ) {
    this.#task = task;
    this.#log = log;
    this.#endpoint = new URL(url).origin;
    const contentType = encoding === 'json' ? 'application/json' : 'application/x-protobuf';
    this.#delegate = createOtlpHttpExportDelegate(
      {
        url,
        headers: async () => ({ ...headers, 'content-type': contentType }),
        compression,
        timeoutMillis: timeoutMs,
        concurrencyLimit,
        // The exporter uses the HTTP client of Node, not undici, so it needs the proxies in another form.
        agentFactory: httpAgentFactoryFromOptions({ keepAlive: true, proxyEnv: { ...proxies } }),
      },
      this.#watchAnswers(serializers[encoding]),
      'fulfilment-sync',
      serializers.helper,
      undefined,
    );
  }

  export(items: T, onDone: (result: ExportResult) => void): void {
    this.#delegate.export(items, (result) => {
      this.#report(result);
      onDone(result);
    });
  }

  async forceFlush(): Promise<void> {
    await this.#delegate.forceFlush();
  }

  async shutdown(): Promise<void> {
    await this.#delegate.shutdown();
  }

  /** Counts what the receiver refuses, because the exporter counts an export with an answer as taken. */
  #watchAnswers(serializer: ISerializer<T, unknown>): ISerializer<T, unknown> {
    return {
      serializeRequest: (request) => serializer.serializeRequest(request),
      deserializeResponse: (bytes) => {
        const answer = serializer.deserializeResponse(bytes);
        this.#refused = countRefused(answer);
        return answer;
      },
    };
  }

  /** Logs when exports begin to fail, or are taken in part, and when they work again. An export that fails is tried again, then dropped. */
  #report({ code, error }: ExportResult): void {
    const [task, endpoint] = [this.#task, this.#endpoint];
    const refused = this.#refused;
    this.#refused = 0;
    const hasFailed = code !== ExportResultCode.SUCCESS || refused > 0;
    if (hasFailed === this.#isFailing) return;
    this.#isFailing = hasFailed;
    if (hasFailed)
      this.#log.warn({ event: 'telemetry_failed', task, endpoint, ...errorFields(toCodedError(error, refused)) });
    else this.#log.info({ event: 'telemetry_recovered', task, endpoint });
  }
}

/** Returns the error of an export in words of this program and of Node. An answer of the receiver is not repeated. */
function toCodedError(error: Error | undefined, refused: number): CodedError {
  const status = error !== undefined && 'code' in error && typeof error.code === 'number' ? error.code : null;
  const words =
    status === null
      ? (error?.message ?? `the receiver refused ${refused} of the spans or points`)
      : `the receiver answered with HTTP ${status}`;
  return new CodedError('telemetry_failed', `${words}; check OTEL_EXPORTER_OTLP_ENDPOINT and its receiver`);
}
