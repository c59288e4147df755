import type { WarehouseClient } from '../../../config/files.ts';
import type { Json } from '../../core/json.ts';
import { TokenSource } from './auth.ts';
import { type HttpOptions, type RawAnswer, type RawRequest, WarehouseHttp } from './http.ts';
import { parseBody } from './http-error.ts';

/** A question to the service. */
export interface Question extends Omit<RawRequest, 'headers' | 'body'> {
  /** Sent as JSON. */
  readonly json?: unknown;
  readonly form?: Readonly<Record<string, string>>;
  /** True if the request is sent without a token. */
  readonly open?: boolean;
}

/** An answer with any status, parsed. */
export interface JsonAnswer extends RawAnswer {
  /** The parsed body; undefined if it is not JSON. */
  readonly json: Json | undefined;
}

/**
 * Asks the service of one client with any method and path, and returns every answer, also one that
 * refuses.
 */
export class RawClient {
  readonly #http: WarehouseHttp;
  readonly #tokens: TokenSource;

  constructor(client: WarehouseClient, options: Omit<HttpOptions, 'baseUrl'>) {
    this.#http = new WarehouseHttp({ ...options, baseUrl: client.baseUrl });
    this.#tokens = new TokenSource(this.#http, {
      username: client.username,
      password: client.password,
    });
  }

  /**
   * Sends a request once.
   * @throws WarehouseError if there is no token or no answer, or StoppedError if the signal was
   *   aborted
   */
  async ask({ json, form, open = false, ...request }: Question): Promise<JsonAnswer> {
    const body =
      json === undefined ? form && new URLSearchParams(form).toString() : JSON.stringify(json);
    const type = json === undefined ? 'application/x-www-form-urlencoded' : 'application/json';
    const headers = {
      ...(body === undefined ? {} : { 'content-type': type }),
      ...(open ? {} : { authorization: `bearer ${await this.#tokens.get(request.signal)}` }),
    };

    const answer = await this.#http.ask({
      ...request,
      headers,
      ...(body === undefined ? {} : { body }),
    });
    return { ...answer, json: parseBody(answer.body) };
  }
}
