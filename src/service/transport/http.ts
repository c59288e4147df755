/**
 * This folder: requests to the service: HTTP, token, links and queries. A token is sent only to the
 * origin of the client's base URL.
 */

import { setTimeout as wait } from 'node:timers/promises';
import type { Dispatcher } from 'undici';
import type { OperationName, Operations } from '../../../config/operations.ts';
import { pauses, toPauseMs } from '../../core/backoff.ts';
import { isSilence, makeUndecodableError, toStopError, WarehouseError } from '../../core/errors.ts';
import { isOrdinaryTime } from '../../core/time.ts';
import {
  type AnswerPart,
  answerBudget,
  freeAnswerBytes,
  unknownAnswerBytes,
} from './answer-budget.ts';
import { makeEncodingError, toStatusError, toTransportError } from './http-error.ts';
import { encodeValue } from './query.ts';
import type { RequestBudget } from './request-budget.ts';

export interface HttpOptions {
  readonly baseUrl: URL;
  readonly operations: Operations;
  readonly dispatcher: Dispatcher;
  readonly timeoutMs: number;
  /**
   * Delays requests so that all processes together keep REQUESTS_PER_SECOND; undefined: unlimited.
   */
  readonly budget: RequestBudget | undefined;
  /** Called after every exchange, with its result. */
  readonly onExchange?: (exchange: Exchange) => void;
}

/** One request and its result. */
export interface Exchange {
  readonly operation: OperationName;
  /** HTTP status, or the code of the error if no status arrived: `timeout`, `connect_failed`, … */
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
  /**
   * Takes over the memory of the answer (answer-budget.ts): the caller calls `release` when it no
   * longer needs the answer, and sends no other request before. Without this function the memory
   * counts only while the answer is read.
   */
  readonly keep?: (release: () => void) => void;
}

export interface HttpAnswer {
  readonly url: URL;
  readonly status: number;
  readonly body: string;
  /** The service's clock by its Date header; null if it sent none. */
  readonly dateMs: number | null;
}

/** An answer with any status. */
interface AnyAnswer extends HttpAnswer {
  readonly contentType: string;
  readonly retryAfter: string | undefined;
}

const isDone = (status: number) => status >= 200 && status < 300;

/**
 * Maximum number of attempts of a read, which is safe to repeat. Without Retry-After, their pauses
 * take less than 2 s.
 */
const maxReads = 4;

/**
 * If the Retry-After is longer than this, the read fails at once, with the Retry-After in its
 * error.
 */
const maxReadWaitMs = 10_000;

/** Content encodings that compress the body. Servers also name encodings that do not change it. */
const compression = /\b(gzip|deflate|br|zstd|compress)\b/i;

/**
 * Sends the requests of one client to its service. No other module sends HTTP requests to the
 * service.
 */
export class WarehouseHttp {
  readonly #options: HttpOptions;

  constructor(options: HttpOptions) {
    this.#options = options;
  }

  /**
   * Sends a read or the token request, and retries it if that may help. Callers must not retry
   * reads.
   * @param beforeSend runs before each attempt
   * @throws WarehouseError, or StoppedError if the signal was aborted
   */
  async read(request: HttpRequest, beforeSend?: () => Promise<void>): Promise<HttpAnswer> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.send(request, beforeSend);
      } catch (error) {
        if (!(error instanceof WarehouseError)) throw error;

        const delayMs = readRetryDelayMs(error, attempt, Math.random());
        if (delayMs === null) throw error;

        await wait(delayMs, undefined, { signal: request.signal }).catch(() =>
          throwStopped(request.signal),
        );
      }
    }
  }

  /**
   * Sends a request once. The whole exchange ends after twice the timeout, even if bytes still
   * arrive.
   * @param beforeSend runs directly before the request is sent; if it throws, the request is not
   *   sent
   */
  async send(request: HttpRequest, beforeSend?: () => Promise<void>): Promise<HttpAnswer> {
    await this.#options.budget?.waitForTurn(request.signal);
    if (request.signal.aborted) throwStopped(request.signal);
    await beforeSend?.();

    const startedAtMs = performance.now();
    const report = (status: string) =>
      this.#options.onExchange?.({
        operation: request.operation,
        status,
        durationMs: performance.now() - startedAtMs,
      });

    try {
      const answer = await this.#exchange(request);
      if (!isDone(answer.status)) throw toStatusError(request.operation, answer);
      report(String(answer.status));
      return answer;
    } catch (error) {
      report(error instanceof WarehouseError ? String(error.status ?? error.code) : 'stopped');
      throw error;
    }
  }

  async #exchange(request: HttpRequest): Promise<AnyAnswer> {
    const { operation } = request;
    const { method, path: template } = this.#options.operations[operation];
    const { baseUrl, dispatcher, timeoutMs } = this.#options;
    const url = buildUrl(baseUrl, template, request);
    const deadline = new Deadline(timeoutMs * 2);
    const signal = AbortSignal.any([request.signal, deadline.signal]);

    try {
      const { statusCode, headers, body } = await dispatcher.request({
        origin: url.origin,
        path: url.pathname + url.search,
        method,
        headers: { accept: 'application/json', 'accept-encoding': 'identity', ...request.headers },
        body: request.body ?? null,
        headersTimeout: timeoutMs,
        bodyTimeout: timeoutMs,
        signal,
      });

      const encoding = String(headers['content-encoding'] ?? '');
      if (isDone(statusCode) && compression.test(encoding)) {
        // We end the body on purpose, so its error is expected.
        body.on('error', () => undefined).destroy();
        throw makeEncodingError(operation, encoding);
      }

      const length = Number(readFirst(headers['content-length']) ?? Number.NaN);
      const text = await readText(body, Number.isNaN(length) ? null : length, {
        isStrict: isDone(statusCode),
        signal,
        deadline,
        keep: isDone(statusCode) ? request.keep : undefined,
      });

      return {
        url,
        status: statusCode,
        contentType: String(headers['content-type'] ?? ''),
        retryAfter: readFirst(headers['retry-after']),
        dateMs: readDateHeader(headers.date),
        body: text,
      };
    } catch (error) {
      if (error instanceof WarehouseError) throw error;
      if (request.signal.aborted) throwStopped(request.signal);
      if (isNotUtf8(error))
        throw makeUndecodableError(`${operation}: the answer is not UTF-8`, operation);
      throw toTransportError(operation, deadline.signal.aborted ? deadline.signal.reason : error);
    } finally {
      deadline.pause();
    }
  }
}

const isNotUtf8 = (error: unknown) =>
  error instanceof TypeError &&
  'code' in error &&
  error.code === 'ERR_ENCODING_INVALID_ENCODED_DATA';

/** The longest time of an exchange. It does not pass while the exchange waits for memory. */
class Deadline {
  readonly #abort = new AbortController();
  readonly #ms: number;
  #timer: NodeJS.Timeout | undefined;

  constructor(ms: number) {
    this.#ms = ms;
    this.start();
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  start(): void {
    this.#timer = setTimeout(
      () => this.#abort.abort(new DOMException('too slow', 'TimeoutError')),
      this.#ms,
    );
  }

  pause(): void {
    clearTimeout(this.#timer);
  }
}

interface ReadTextOptions {
  /** True if bytes that are not UTF-8 are an error. */
  readonly isStrict: boolean;
  readonly signal: AbortSignal;
  readonly deadline: Deadline;
  readonly keep: HttpRequest['keep'];
}

/**
 * Reads a body as text. A large one waits for its part of the answer budget; the connection then
 * waits, too.
 * @param length number of bytes; null if the service did not state it
 */
async function readText(
  body: AsyncIterable<Uint8Array>,
  length: number | null,
  { isStrict, signal, deadline, keep }: ReadTextOptions,
): Promise<string> {
  const decoder = new TextDecoder('utf-8', { fatal: isStrict });
  const parts: string[] = [];
  let bytes = 0;
  let part: AnswerPart | undefined;
  let reserved = freeAnswerBytes;

  try {
    for await (const chunk of body) {
      bytes += chunk.length;

      if (Math.max(bytes, length ?? 0) > reserved) {
        deadline.pause();
        // Gives back its part before it asks for a larger one.
        part?.release();
        reserved = length ?? (part === undefined ? unknownAnswerBytes : Number.POSITIVE_INFINITY);
        part = await answerBudget.reserve(reserved, signal);
        deadline.start();
      }

      parts.push(decoder.decode(chunk, { stream: true }));
    }
    parts.push(decoder.decode());
    const text = parts.join('');

    part?.shrink(bytes);
    if (keep === undefined) part?.release();
    else keep(part?.release ?? (() => undefined));

    return text;
  } catch (error) {
    part?.release();
    throw error;
  }
}

/** Builds the URL of a request. The path of the base URL stays in front of the operation's path. */
function buildUrl(
  baseUrl: URL,
  path: string,
  request: Pick<HttpRequest, 'operation' | 'path' | 'query'>,
): URL {
  const filled = path.replace(/\{(\w+)\}/g, (_part, name: string) => {
    const value = request.path?.[name];
    if (value === undefined)
      throw new TypeError(`${request.operation} needs the path value ${name}`);

    // The URL parser would treat `.` and `..` as steps in the path, even if they are encoded.
    if (String(value) === '.' || String(value) === '..') {
      const problem = `${request.operation}: ${name} must not be ${value}`;
      throw new WarehouseError('bad_path_value', problem, {
        outcome: 'refused',
        operation: request.operation,
      });
    }

    return encodeValue(value);
  });

  const url = new URL(baseUrl);
  url.pathname = `${baseUrl.pathname.replace(/(?<!\/)\/+$/, '')}/${filled.replace(/^\/+/, '')}`;
  url.search = request.query ?? '';
  return url;
}

function throwStopped(signal: AbortSignal): never {
  throw toStopError(signal);
}

function readDateHeader(header: string | string[] | undefined): number | null {
  const ms = Date.parse(readFirst(header) ?? '');
  return isOrdinaryTime(ms) ? ms : null;
}

function readFirst(header: string | string[] | undefined): string | undefined {
  return Array.isArray(header) ? header[0] : header;
}

const transientStatuses = new Set([408, 425, 429]);

/**
 * Returns how long to wait before a failed read is repeated, in milliseconds: not before
 * Retry-After. Returns null to give up.
 * @param attempt number of attempts so far, from 1
 * @param random a number in [0, 1)
 */
export function readRetryDelayMs(
  error: WarehouseError,
  attempt: number,
  random: number,
): number | null {
  const { retryAfterMs = 0 } = error;
  if (attempt >= maxReads || !isTransient(error) || retryAfterMs > maxReadWaitMs) return null;
  return retryAfterMs + toPauseMs(pauses.read, attempt, random);
}

function isTransient(error: WarehouseError): boolean {
  if (error.status !== undefined && error.status >= 400) {
    return error.status >= 500 || transientStatuses.has(error.status);
  }
  return isSilence(error);
}
