import { z } from 'zod';
import type { OperationName } from '../../../config/operations.ts';
import { stopReason, undecodableAnswer, WarehouseError } from '../../core/errors.ts';
import { parseExact } from '../../core/json.ts';
import type { WarehouseHttp } from './http.ts';

/** Token answer (interface.md, Token response); members that are not used are let through. */
const tokenSchema = z.looseObject({
  access_token: z.string().regex(/^[\x21-\x7e]+$/),
  expires_in: z.preprocess((value) => (JSON.isRawJSON(value) ? Number(value.rawJSON) : value), z.number().positive()),
});

export interface Credentials {
  readonly username: string;
  readonly password: string;
}

/** At the latest this long before its end a token is renewed; for short-lived ones at nine tenths of their life. */
const renewalMarginMs = 60_000;

/** A token that is refused from the start is kept this long, and twice as long each time that a new one was refused as well. */
const fruitlessMs = 20_000;
const fruitlessCapMs = 15 * 60_000;
const waitMs = (times: number) => Math.min(fruitlessCapMs, fruitlessMs * 2 ** Math.min(times, 10));

/**
 * The bearer token of one client, shared by all its callers: one request at a time fetches a new one
 * (interface.md, Authentication).
 */
export class TokenSource {
  readonly #http: WarehouseHttp;
  readonly #credentials: Credentials;
  #current: { token: string; renewAtMs: number; issuedAtMs: number; isAccepted: boolean } | undefined;
  /** Operations that were refused since they were last let in, and when that may cost a token again. */
  readonly #refusals = new Map<OperationName, { readonly times: number; readonly renewAtMs: number }>();
  /** Tokens in a row that were given up without ever having been let in. */
  #fruitless = 0;
  #renewal: Promise<string> | undefined;

  constructor(http: WarehouseHttp, credentials: Credentials) {
    this.#http = http;
    this.#credentials = credentials;
  }

  /**
   * A token that is still good for a while.
   * @throws WarehouseError `credentials_refused` where the service does not accept username and password
   */
  get(signal: AbortSignal): Promise<string> {
    if (this.#current !== undefined && performance.now() < this.#current.renewAtMs) {
      return Promise.resolve(this.#current.token);
    }
    this.#renewal ??= this.#renew().finally(() => {
      this.#renewal = undefined;
    });
    return orAborted(this.#renewal, signal);
  }

  /** Says that the service let this token in for an operation. */
  accept(token: string, operation: OperationName): void {
    const current = this.#current;
    if (current?.token !== token) return;
    current.isAccepted = true;
    this.#refusals.delete(operation);
  }

  /**
   * Says that the service answered 401 to this token. Only the first caller to say so causes a new one. A token that was
   * just issued, or that a new one would not better, is kept: what is refused then is the operation, not the token.
   * @returns whether the next request will be made with another token
   */
  reject(token: string, operation: OperationName): boolean {
    const current = this.#current;
    if (current?.token !== token) return true;
    const nowMs = performance.now();
    const mine = this.#refusals.get(operation) ?? { times: 0, renewAtMs: 0 };
    const isFresh = !current.isAccepted && nowMs < current.issuedAtMs + waitMs(this.#fruitless - 1);
    if ((isFresh && this.#fruitless > 0) || nowMs < mine.renewAtMs) return false;
    this.#fruitless = current.isAccepted ? 0 : this.#fruitless + 1;
    this.#refusals.set(operation, { times: mine.times + 1, renewAtMs: nowMs + waitMs(mine.times) });
    this.#current = undefined;
    return true;
  }

  /** Ends by the HTTP timeouts alone: one caller that gives up must not take the token from the others. */
  async #renew(): Promise<string> {
    const { signal } = new AbortController();
    const askedAtMs = performance.now();
    const body = new URLSearchParams({ grant_type: 'password', ...this.#credentials }).toString();
    const headers = { 'content-type': 'application/x-www-form-urlencoded' };
    const answer = await this.#http
      .read({ operation: 'common.token', headers, body, signal })
      .catch((error: unknown) => {
        throw isRefusal(error) ? credentialsRefused(error) : error;
      });
    const { access_token: token, expires_in: seconds } = decodeToken(answer.body);
    const lifeMs = seconds * 1_000;
    const renewAtMs = askedAtMs + Math.max(lifeMs * 0.9, lifeMs - renewalMarginMs);
    this.#current = { token, renewAtMs, issuedAtMs: performance.now(), isAccepted: false };
    return token;
  }
}

/** The result, or the caller's own reason to leave; what others wait for goes on. */
async function orAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const left = Promise.withResolvers<never>();
  const leave = () => left.reject(stopReason(signal));
  if (signal.aborted) leave();
  signal.addEventListener('abort', leave, { once: true });
  try {
    return await Promise.race([work, left.promise]);
  } finally {
    signal.removeEventListener('abort', leave);
  }
}

function decodeToken(body: string): z.infer<typeof tokenSchema> {
  try {
    return tokenSchema.parse(parseExact(body));
  } catch (error) {
    // Neither the body nor the parser's message may be quoted: they may hold the token.
    if (!(error instanceof SyntaxError || error instanceof z.ZodError)) throw error;
    throw undecodableAnswer('common.token: the answer holds no usable token');
  }
}

function isRefusal(error: unknown): error is WarehouseError {
  if (!(error instanceof WarehouseError) || error.status === undefined) return false;
  return error.status >= 400 && error.status < 500 && ![408, 425, 429].includes(error.status);
}

function credentialsRefused(cause: WarehouseError): WarehouseError {
  return new WarehouseError(
    'credentials_refused',
    'The service refused username and password; check them with whoever issued them',
    { outcome: 'refused', cause, ...(cause.status === undefined ? {} : { status: cause.status }) },
  );
}
