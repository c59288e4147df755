import type { WarehouseClient } from '../../config/files.ts';
import type { OperationName } from '../../config/operations.ts';
import { WarehouseError } from '../core/errors.ts';
import type { Json } from '../core/json.ts';
import { TokenSource } from './auth.ts';
import { decodeEnvelope } from './envelope.ts';
import { type HttpAnswer, type HttpOptions, type HttpRequest, WarehouseHttp } from './http.ts';
import { type Document, decodeDocument } from './jsonapi.ts';
import { nextQuery } from './links.ts';

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

  constructor(client: WarehouseClient, options: Omit<HttpOptions, 'baseUrl'>) {
    this.#http = new WarehouseHttp({ ...options, baseUrl: client.baseUrl });
    this.#tokens = new TokenSource(this.#http, { username: client.username, password: client.password });
  }

  /** Asks whether the service is up; needs no token (interface.md, Common operations). */
  async status(signal: AbortSignal): Promise<void> {
    const answer = await this.#http.send({ operation: 'common.status.get', signal });
    decodeEnvelope('common.status.get', answer.body);
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
  async get(operation: OperationName, id: number, query: string, options: ReadOptions): Promise<Document | null> {
    try {
      const answer = await this.#authorized({ operation, path: { id }, query, signal: options.signal }, options);
      return decodeDocument(operation, answer.body, 'single');
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

  /** Adds the bearer token. A 401 costs one new token, shared by all callers that hold the same old one. */
  async #authorized(request: HttpRequest, options: ReadOptions): Promise<HttpAnswer> {
    const ask = async (token: string) => {
      const headers = { ...request.headers, authorization: `bearer ${token}` };
      return this.#http.read({ ...request, headers }, options.beforeSend);
    };
    const token = await this.#tokens.get(options.signal);
    try {
      return await ask(token);
    } catch (error) {
      if (!(error instanceof WarehouseError) || error.status !== 401) throw error;
      this.#tokens.reject(token);
      return ask(await this.#tokens.get(options.signal));
    }
  }
}
