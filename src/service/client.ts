import type { WarehouseClient } from '../../config/files.ts';
import type { Operation, OperationName } from '../../config/operations.ts';
import { WarehouseError } from '../core/errors.ts';
import type { Json } from '../core/json.ts';
import { decodeEnvelope } from './decoding/envelope.ts';
import { type Document, decodeDocument } from './decoding/jsonapi.ts';
import { TokenSource } from './transport/auth.ts';
import {
  type HttpAnswer,
  type HttpOptions,
  type HttpRequest,
  WarehouseHttp,
} from './transport/http.ts';
import { readNextQuery } from './transport/query.ts';

/** One page of a v3 list. */
export interface ListPage extends Document {
  /**
   * The query of the next page; null at the end; an error if the link cannot be followed. The
   * page's data is valid anyway.
   */
  readonly next: string | null | WarehouseError;
  readonly dateMs: number | null;
}

export interface ReadOptions {
  readonly signal: AbortSignal;
  /** Runs before each attempt, including retries. */
  readonly beforeSend?: () => Promise<void>;
  /** Takes over the memory of the answer, until the caller has stored it. */
  readonly keep?: HttpRequest['keep'];
}

/** A request that may change something at the service. */
export interface WriteRequest {
  readonly operation: OperationName;
  readonly path?: Readonly<Record<string, string | number>>;
  /** Encoded, without the question mark. */
  readonly query?: string;
  /** Sent as JSON. */
  readonly body?: unknown;
}

export interface WriteOptions {
  readonly signal: AbortSignal;
  /**
   * Runs directly before the request is sent, after the token is ready. If it throws, the request
   * is not sent.
   */
  readonly beforeSend: () => Promise<void>;
}

/**
 * Reads the next link. Returns an error instead of throwing it, because the page with a bad link is
 * still valid.
 */
function readNextLink(links: Json | undefined, requested: URL): string | null | WarehouseError {
  try {
    return readNextQuery(links, requested);
  } catch (error) {
    if (error instanceof WarehouseError) return error;
    throw error;
  }
}

/**
 * Returns the error for a page that is too large although we could not limit its size, with the
 * switch that might.
 */
function namePageSize(operation: OperationName, error: unknown): unknown {
  if (!(error instanceof WarehouseError) || error.code !== 'body_too_large') return error;

  const remedy =
    `page[size] was not sent; set "pageSize": true for ${operation} ` +
    'in WAREHOUSE_OPERATIONS_FILE to send 100';
  return new WarehouseError(error.code, `${error.message}; ${remedy}`, {
    outcome: error.outcome,
    operation,
    cause: error,
  });
}

/**
 * The operations of one client at its service. All calls throw WarehouseError, or StoppedError if
 * the signal is aborted.
 */
export class Warehouse {
  readonly #http: WarehouseHttp;
  readonly #tokens: TokenSource;
  readonly #retries: boolean;
  readonly #client: WarehouseClient;
  readonly #options: Omit<HttpOptions, 'baseUrl'>;

  constructor(
    client: WarehouseClient,
    options: Omit<HttpOptions, 'baseUrl'>,
    shared?: { readonly http: WarehouseHttp; readonly tokens: TokenSource },
  ) {
    this.#http = shared?.http ?? new WarehouseHttp({ ...options, baseUrl: client.baseUrl });

    this.#tokens =
      shared?.tokens ??
      new TokenSource(this.#http, { username: client.username, password: client.password });

    this.#retries = shared === undefined;
    this.#client = client;
    this.#options = options;
  }

  /**
   * Returns the same service with the same token, but each read is sent once. For callers that
   * retry by themselves.
   */
  withoutRetries(): Warehouse {
    return new Warehouse(this.#client, this.#options, { http: this.#http, tokens: this.#tokens });
  }

  /**
   * Returns whether an operation may be used. An optional one may if WAREHOUSE_OPERATIONS_FILE has
   * an entry for it.
   */
  isEnabled(operation: OperationName): boolean {
    return this.#options.operations[operation].enabled ?? true;
  }

  /** Returns the method and path of an operation, and whether docs/interface.md shows them. */
  findRoute(operation: OperationName): Pick<Operation, 'method' | 'path' | 'documented'> {
    return this.#options.operations[operation];
  }

  /** Checks that the service is up. It needs no token (docs/interface.md, 6.1 Service status). */
  async checkStatus(signal: AbortSignal): Promise<void> {
    const answer = await this.#http.send({ operation: 'common.status.get', signal });
    decodeEnvelope('common.status.get', answer.body);
  }

  /** Checks once that the service is up, and that it accepts the credentials. */
  async signIn(signal: AbortSignal): Promise<void> {
    await this.checkStatus(signal);
    await this.#tokens.get(signal);
  }

  /**
   * Reads the service's clock, in milliseconds since 1970; null if it sends no Date. It needs no
   * token.
   */
  async readClock(signal: AbortSignal): Promise<number | null> {
    return (await this.#http.read({ operation: 'common.status.get', signal })).dateMs;
  }

  /** Returns true if `page[size]` may be sent to a list (docs/assumptions.md). */
  takesPageSize(operation: OperationName): boolean {
    return this.#options.operations[operation].pageSize !== false;
  }

  /** Reads one page of a v3 list. `query` is encoded, without the question mark. */
  async list(operation: OperationName, query: string, options: ReadOptions): Promise<ListPage> {
    const answer = await this.#authorized(
      { operation, query, signal: options.signal },
      options,
    ).catch((error: unknown) => {
      throw this.takesPageSize(operation) ? error : namePageSize(operation, error);
    });

    const document = decodeDocument(operation, answer.body, 'list');
    return { ...document, next: readNextLink(document.links, answer.url), dateMs: answer.dateMs };
  }

  /** Reads one resource. Returns null if the service itself answers 404. */
  async get(
    operation: OperationName,
    id: number,
    query: string,
    options: ReadOptions,
  ): Promise<(Document & Pick<ListPage, 'dateMs'>) | null> {
    try {
      const answer = await this.#authorized(
        { operation, path: { id }, query, signal: options.signal },
        options,
      );
      return { ...decodeDocument(operation, answer.body, 'single'), dateMs: answer.dateMs };
    } catch (error) {
      if (isAbsence(error)) return null;
      throw error;
    }
  }

  /** Returns true if the service has a resource. The answer is not decoded. */
  async hasResource(operation: OperationName, id: number, options: ReadOptions): Promise<boolean> {
    try {
      await this.#authorized({ operation, path: { id }, signal: options.signal }, options);
      return true;
    } catch (error) {
      if (isAbsence(error)) return false;
      throw error;
    }
  }

  /**
   * Calls a read operation of the older generations. Returns the `result` of its envelope, and
   * throws if it says NOK.
   */
  async ask(request: WriteRequest, options: ReadOptions): Promise<Json> {
    const { body, ...rest } = request;
    const answer = await this.#authorized(
      { ...rest, ...toJsonContent(body), signal: options.signal },
      options,
    );
    return decodeEnvelope(request.operation, answer.body);
  }

  /**
   * Calls a read operation of the older generations once, without a retry, not even after a 401.
   */
  async askOnce(request: WriteRequest, options: WriteOptions): Promise<Json> {
    const answer = await this.write(request, options);
    return decodeEnvelope(request.operation, answer.body);
  }

  /**
   * Sends a change once; the outbox decides whether it is sent again. After a 401, the next request
   * has a new token.
   */
  async write(request: WriteRequest, { signal, beforeSend }: WriteOptions): Promise<HttpAnswer> {
    const { body, ...rest } = request;
    const token = await this.#tokens.get(signal);

    const { headers, ...content } = toJsonContent(body);

    const authorized = {
      ...rest,
      ...content,
      headers: { ...headers, authorization: `bearer ${token}` },
      signal,
    };

    try {
      return await this.#recordAcceptance(
        request.operation,
        token,
        this.#http.send(authorized, beforeSend),
      );
    } catch (error) {
      if (!isUnauthorized(error)) throw error;
      throw this.#tokens.reject(token, request.operation)
        ? error
        : makeTokenRefusedError(request.operation, error);
    }
  }

  /**
   * Waits for an answer, and records that the service accepts the token: every answer but a 401
   * shows that.
   */
  async #recordAcceptance<T>(
    operation: OperationName,
    token: string,
    answer: Promise<T>,
  ): Promise<T> {
    try {
      const received = await answer;
      this.#tokens.accept(token, operation);
      return received;
    } catch (error) {
      const isAnswer = error instanceof WarehouseError && error.jsonBody && error.status !== 401;
      if (isAnswer) this.#tokens.accept(token, operation);
      throw error;
    }
  }

  /**
   * Sends a read with the bearer token. After a 401, it tries once more with a new token, which all
   * callers share.
   */
  async #authorized(request: HttpRequest, options: ReadOptions): Promise<HttpAnswer> {
    const token = await this.#tokens.get(options.signal);
    try {
      return await this.#readWith(token, request, options);
    } catch (error) {
      if (!isUnauthorized(error)) throw error;
      if (!this.#tokens.reject(token, request.operation))
        throw makeTokenRefusedError(request.operation, error);
    }

    const another = await this.#tokens.get(options.signal);
    try {
      return await this.#readWith(another, request, options);
    } catch (error) {
      if (!isUnauthorized(error)) throw error;
      this.#tokens.reject(another, request.operation);
      throw makeTokenRefusedError(request.operation, error);
    }
  }

  #readWith(
    token: string,
    request: HttpRequest,
    { beforeSend, keep }: ReadOptions,
  ): Promise<HttpAnswer> {
    const authorized = {
      ...request,
      headers: { ...request.headers, authorization: `bearer ${token}` },
      ...(keep === undefined ? {} : { keep }),
    };
    const answer = this.#retries
      ? this.#http.read(authorized, beforeSend)
      : this.#http.send(authorized, beforeSend);

    return this.#recordAcceptance(request.operation, token, answer);
  }
}

const isUnauthorized = (error: unknown): error is WarehouseError =>
  error instanceof WarehouseError && error.status === 401;

/** Returns true if the service itself, and not a proxy, says that a resource does not exist. */
const isAbsence = (error: unknown) =>
  error instanceof WarehouseError && error.status === 404 && error.jsonBody;

/** Makes the error of a 401 that a new token does not cure. */
function makeTokenRefusedError(operation: OperationName, cause: WarehouseError): WarehouseError {
  return new WarehouseError(
    'token_refused',
    `${operation}: answered 401 to a token that the service issued; ` +
      'ask the issuer of the credentials whether they allow this operation',
    { outcome: 'not_executed', status: 401, operation, jsonBody: cause.jsonBody, cause },
  );
}

function toJsonContent(body: unknown): Pick<HttpRequest, 'headers' | 'body'> {
  return body === undefined
    ? {}
    : { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) };
}
