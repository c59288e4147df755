import type { WarehouseClient } from '../../config/files.ts';
import type { OperationName } from '../../config/operations.ts';
import { WarehouseError } from '../core/errors.ts';
import type { Json } from '../core/json.ts';
import { decodeEnvelope } from './decoding/envelope.ts';
import { type Document, decodeDocument } from './decoding/jsonapi.ts';
import { TokenSource } from './transport/auth.ts';
import { type HttpAnswer, type HttpOptions, type HttpRequest, WarehouseHttp } from './transport/http.ts';
import { nextQuery } from './transport/links.ts';

/** One page of a v3 list. */
export interface ListPage extends Document {
  /** The query of the next page, null at the end; an error where the link cannot be followed. The rows are good all the same. */
  readonly next: string | null | WarehouseError;
  readonly dateMs: number | null;
}

export interface ReadOptions {
  readonly signal: AbortSignal;
  /** Runs before every single send, retries included. */
  readonly beforeSend?: () => Promise<void>;
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
  /** Runs just before the request is written, once a token is there; what it throws keeps the request from being sent. */
  readonly beforeSend: () => Promise<void>;
}

/** A link that cannot be followed is no reason to throw its page away. */
function linkOf(links: Json | undefined, requested: URL): string | null | WarehouseError {
  try {
    return nextQuery(links, requested);
  } catch (error) {
    if (error instanceof WarehouseError) return error;
    throw error;
  }
}

/** What one client may ask of its service. All calls throw WarehouseError, or StoppedError once the signal is aborted. */
export class Warehouse {
  readonly #http: WarehouseHttp;
  readonly #tokens: TokenSource;
  readonly #retries: boolean;

  constructor(
    client: WarehouseClient,
    options: Omit<HttpOptions, 'baseUrl'>,
    shared?: { readonly http: WarehouseHttp; readonly tokens: TokenSource },
  ) {
    this.#http = shared?.http ?? new WarehouseHttp({ ...options, baseUrl: client.baseUrl });
    this.#tokens =
      shared?.tokens ?? new TokenSource(this.#http, { username: client.username, password: client.password });
    this.#retries = shared === undefined;
    this.withoutRetries = () => new Warehouse(client, options, { http: this.#http, tokens: this.#tokens });
  }

  /** The same service with the same token, for who tries again by himself: each read is asked once. */
  readonly withoutRetries: () => Warehouse;

  /** Asks whether the service is up; needs no token (interface.md, Common operations). */
  async status(signal: AbortSignal): Promise<void> {
    const answer = await this.#http.send({ operation: 'common.status.get', signal });
    decodeEnvelope('common.status.get', answer.body);
  }

  /** Asks whether the service is up, once, and lets us in. */
  async ready(signal: AbortSignal): Promise<void> {
    await this.status(signal);
    await this.#tokens.get(signal);
  }

  /** The service's clock, milliseconds since 1970; null where it sends no Date. Needs no token. */
  async clock(signal: AbortSignal): Promise<number | null> {
    return (await this.#http.read({ operation: 'common.status.get', signal })).dateMs;
  }

  /** Asks one page of a v3 list. `query` is encoded, without the question mark. */
  async list(operation: OperationName, query: string, options: ReadOptions): Promise<ListPage> {
    const answer = await this.#authorized({ operation, query, signal: options.signal }, options);
    const document = decodeDocument(operation, answer.body, 'list');
    return { ...document, next: linkOf(document.links, answer.url), dateMs: answer.dateMs };
  }

  /** Reads one resource; null where the service itself says 404. */
  async get(
    operation: OperationName,
    id: number,
    query: string,
    options: ReadOptions,
  ): Promise<(Document & Pick<ListPage, 'dateMs'>) | null> {
    try {
      const answer = await this.#authorized({ operation, path: { id }, query, signal: options.signal }, options);
      return { ...decodeDocument(operation, answer.body, 'single'), dateMs: answer.dateMs };
    } catch (error) {
      if (error instanceof WarehouseError && error.status === 404 && error.jsonBody) return null;
      throw error;
    }
  }

  /** Whether the service has a resource; what it is made of is not looked at. */
  async knows(operation: OperationName, id: number, options: ReadOptions): Promise<boolean> {
    try {
      await this.#authorized({ operation, path: { id }, signal: options.signal }, options);
      return true;
    } catch (error) {
      if (error instanceof WarehouseError && error.status === 404 && error.jsonBody) return false;
      throw error;
    }
  }

  /** Asks an operation of the older generations that changes nothing; the `result` of its envelope. NOK is thrown. */
  async ask(request: WriteRequest, options: ReadOptions): Promise<Json> {
    const { body, ...rest } = request;
    const answer = await this.#authorized({ ...rest, ...jsonBody(body), signal: options.signal }, options);
    return decodeEnvelope(request.operation, answer.body);
  }

  /** Asks an operation of the older generations that changes nothing, once, whatever comes of it: also after a 401. */
  async askOnce(request: WriteRequest, options: WriteOptions): Promise<Json> {
    const answer = await this.write(request, options);
    return decodeEnvelope(request.operation, answer.body);
  }

  /** Sends a change, once: whether it is sent again is for the outbox to decide. After a 401 the next one has a new token. */
  async write(request: WriteRequest, { signal, beforeSend }: WriteOptions): Promise<HttpAnswer> {
    const { body, ...rest } = request;
    const token = await this.#tokens.get(signal);
    const { headers, ...content } = jsonBody(body);
    const asked = { ...rest, ...content, headers: { ...headers, authorization: `bearer ${token}` }, signal };
    try {
      return await this.#told(request.operation, token, this.#http.send(asked, beforeSend));
    } catch (error) {
      if (!(error instanceof WarehouseError) || error.status !== 401) throw error;
      throw this.#tokens.reject(token, request.operation) ? error : tokenRefused(request.operation, error);
    }
  }

  /** An answer to a request, whatever it says but 401, shows that the token is let in. */
  async #told<T>(operation: OperationName, token: string, answer: Promise<T>): Promise<T> {
    try {
      const got = await answer;
      this.#tokens.accept(token, operation);
      return got;
    } catch (error) {
      const isAnswer = error instanceof WarehouseError && error.jsonBody && error.status !== 401;
      if (isAnswer) this.#tokens.accept(token, operation);
      throw error;
    }
  }

  /** Adds the bearer token. A 401 costs one new token, shared by all callers that hold the same old one. */
  async #authorized(request: HttpRequest, options: ReadOptions): Promise<HttpAnswer> {
    const ask = async (token: string) => {
      const headers = { ...request.headers, authorization: `bearer ${token}` };
      const asked = { ...request, headers };
      const { beforeSend } = options;
      const answer = this.#retries ? this.#http.read(asked, beforeSend) : this.#http.send(asked, beforeSend);
      return this.#told(request.operation, token, answer);
    };
    const token = await this.#tokens.get(options.signal);
    try {
      return await ask(token);
    } catch (error) {
      if (!(error instanceof WarehouseError) || error.status !== 401) throw error;
      if (!this.#tokens.reject(token, request.operation)) throw tokenRefused(request.operation, error);
      const another = await this.#tokens.get(options.signal);
      try {
        return await ask(another);
      } catch (again) {
        if (!(again instanceof WarehouseError) || again.status !== 401) throw again;
        this.#tokens.reject(another, request.operation);
        throw tokenRefused(request.operation, again);
      }
    }
  }
}

/** A 401 that a new token would not better. */
function tokenRefused(operation: OperationName, cause: WarehouseError): WarehouseError {
  return new WarehouseError(
    'token_refused',
    `${operation}: answered 401 to a token that the service issued; whoever issued the credentials can say whether they may do this`,
    { outcome: 'not_executed', status: 401, jsonBody: cause.jsonBody, cause },
  );
}

function jsonBody(body: unknown): Pick<HttpRequest, 'headers' | 'body'> {
  return body === undefined ? {} : { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) };
}
