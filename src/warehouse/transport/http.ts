/**
 * Requests to the service: HTTP, token, links and queries. A token leaves only for the origin of the client's base
 * URL.
 */

import { setTimeout as wait } from 'node:timers/promises';
import type { Dispatcher } from 'undici';
import type { OperationName, Operations } from '../../../config/operations.ts';
import { stopReason, undecodableAnswer, WarehouseError } from '../../core/errors.ts';
import { readRetryDelayMs } from '../../core/retry.ts';
import { encodedError, statusError, transportError } from './http-error.ts';
import { encodeValue } from './query.ts';

export interface HttpOptions {
  readonly baseUrl: URL;
  readonly operations: Operations;
  readonly dispatcher: Dispatcher;
  readonly timeoutMs: number;
  /** At most this many requests a second of this process; unlimited where undefined. */
  readonly requestsPerSecond: number | undefined;
  /** Told of every exchange, however it ended. */
  readonly onExchange?: (exchange: Exchange) => void;
}

/** One request and what came of it. */
export interface Exchange {
  readonly operation: OperationName;
  /** HTTP status, or the code of the error where none came: `timeout`, `connect_failed`, … */
  readonly status: string;
  readonly durationMs: number;
}

export interface HttpRequest {
  readonly operation: OperationName;
  /** Values for the `{name}` parts of the path. */
  readonly path?: Readonly<Record<string, string | number>>;
  /** An encoded query without the question mark. */
  readonly query?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly signal: AbortSignal;
}

export interface HttpAnswer {
  readonly url: URL;
  readonly body: string;
  /** The service's clock by its Date header, null where it sent none. */
  readonly dateMs: number | null;
}

/** Encodings that make a body something else than text; servers also name some that do not. */
const packed = /\b(gzip|deflate|br|zstd|compress)\b/i;

/** Sends requests of one client to its service. The only place that speaks HTTP. */
export class WarehouseHttp {
  readonly #options: HttpOptions;
  #nextSendAtMs = 0;

  constructor(options: HttpOptions) {
    this.#options = options;
  }

  /**
   * Sends a read (or the token request), again where that may help; nothing above this retries a read.
   * @param beforeSend runs before every single send, for what must be known of each attempt
   * @throws WarehouseError, or StoppedError where the signal ended it
   */
  async read(request: HttpRequest, beforeSend?: () => Promise<void>): Promise<HttpAnswer> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.send(request, beforeSend);
      } catch (error) {
        if (!(error instanceof WarehouseError)) throw error;
        const delayMs = readRetryDelayMs(error, attempt, Math.random());
        if (delayMs === null) throw error;
        await wait(delayMs, undefined, { signal: request.signal }).catch(() => throwStopped(request.signal));
      }
    }
  }

  /**
   * Sends once. The whole exchange ends after twice the timeout, however slowly bytes drip in.
   * @param beforeSend runs when nothing stands between it and the sending any more; what it throws keeps it from being sent
   */
  async send(request: HttpRequest, beforeSend?: () => Promise<void>): Promise<HttpAnswer> {
    await this.#pace(request.signal);
    if (request.signal.aborted) throwStopped(request.signal);
    await beforeSend?.();
    const startedAtMs = performance.now();
    const tell = (status: string) =>
      this.#options.onExchange?.({
        operation: request.operation,
        status,
        durationMs: performance.now() - startedAtMs,
      });
    try {
      const { status, answer } = await this.#exchange(request);
      tell(String(status));
      return answer;
    } catch (error) {
      tell(error instanceof WarehouseError ? String(error.status ?? error.code) : 'stopped');
      throw error;
    }
  }

  async #exchange(request: HttpRequest): Promise<{ readonly status: number; readonly answer: HttpAnswer }> {
    const { baseUrl, operations, dispatcher, timeoutMs } = this.#options;
    const operation = operations[request.operation];
    const url = urlOf(baseUrl, operation.path, request);
    const deadline = AbortSignal.timeout(timeoutMs * 2);
    try {
      const { statusCode, headers, body } = await dispatcher.request({
        origin: url.origin,
        path: url.pathname + url.search,
        method: operation.method,
        headers: { accept: 'application/json', 'accept-encoding': 'identity', ...request.headers },
        body: request.body ?? null,
        headersTimeout: timeoutMs,
        bodyTimeout: timeoutMs,
        signal: AbortSignal.any([request.signal, deadline]),
      });
      const ok = statusCode >= 200 && statusCode < 300;
      const encoding = String(headers['content-encoding'] ?? '');
      if (ok && packed.test(encoding)) {
        // It is given up on purpose: that it was, is no news.
        body.on('error', () => undefined).destroy();
        throw encodedError(request.operation, encoding);
      }
      const bytes = await body.arrayBuffer();
      const dateMs = readDateHeader(headers.date);
      const text = new TextDecoder('utf-8', { fatal: ok }).decode(bytes);
      if (ok) return { status: statusCode, answer: { url, body: text, dateMs } };
      throw statusError(request.operation, {
        status: statusCode,
        body: text,
        contentType: String(headers['content-type'] ?? ''),
        retryAfter: firstOf(headers['retry-after']),
        dateMs,
      });
    } catch (error) {
      if (error instanceof WarehouseError) throw error;
      if (request.signal.aborted) throwStopped(request.signal);
      if (error instanceof TypeError && 'code' in error && error.code === 'ERR_ENCODING_INVALID_ENCODED_DATA') {
        throw undecodableAnswer(`${request.operation}: the answer is not UTF-8`);
      }
      throw transportError(request.operation, deadline.aborted ? deadline.reason : error);
    }
  }

  async #pace(signal: AbortSignal): Promise<void> {
    const { requestsPerSecond } = this.#options;
    if (requestsPerSecond === undefined) return;
    const now = performance.now();
    const sendAtMs = Math.max(now, this.#nextSendAtMs);
    this.#nextSendAtMs = sendAtMs + 1_000 / requestsPerSecond;
    if (sendAtMs > now) await wait(sendAtMs - now, undefined, { signal }).catch(() => throwStopped(signal));
  }
}

/** The base URL's own path is kept in front of the operation's. */
function urlOf(baseUrl: URL, path: string, request: HttpRequest): URL {
  const filled = path.replace(/\{(\w+)\}/g, (_part, name: string) => {
    const value = request.path?.[name];
    if (value === undefined) throw new TypeError(`${request.operation} needs the path value ${name}`);
    // The URL parser would take it for a step up the path, whatever it stands for.
    if (String(value) === '.' || String(value) === '..')
      throw new WarehouseError('bad_path_value', `${request.operation}: ${name} must not be ${value}`, {
        outcome: 'refused',
      });
    return encodeValue(value);
  });
  const url = new URL(baseUrl);
  url.pathname = `${baseUrl.pathname.replace(/(?<!\/)\/+$/, '')}/${filled.replace(/^\/+/, '')}`;
  url.search = request.query ?? '';
  return url;
}

function throwStopped(signal: AbortSignal): never {
  throw stopReason(signal);
}

function readDateHeader(header: string | string[] | undefined): number | null {
  const ms = Date.parse(firstOf(header) ?? '');
  return Number.isNaN(ms) ? null : ms;
}

function firstOf(header: string | string[] | undefined): string | undefined {
  return Array.isArray(header) ? header[0] : header;
}
