import type { OperationName } from '../../../config/operations.ts';
import { growPauseMs, pauses } from '../../core/backoff.ts';
import { makeUndecodableError, toStopError, WarehouseError } from '../../core/errors.ts';
import { isObject, type Json } from '../../core/json.ts';
import { quote } from '../../core/quote.ts';
import type { WarehouseHttp } from './http.ts';
import { parseBody } from './http-error.ts';

/** The part of the token answer that is used (docs/interface.md, 3.3 Token response). */
interface GrantedToken {
  readonly token: string;
  readonly seconds: number;
}

/** Maximum length of a token. Servers refuse longer headers. */
const maxTokenCharacters = 16_384;

/**
 * Maximum length of a text that an error shows. A longer one may be the token in the wrong member.
 */
const maxShownCharacters = 20;

export interface Credentials {
  readonly username: string;
  readonly password: string;
}

/**
 * A token is renewed this long before it expires, or after nine tenths of its life if that is
 * later.
 */
const renewalMarginMs = 60_000;

/**
 * Returns how long the next token is kept at least, after this number of new tokens that were
 * refused.
 */
const toKeepMs = (refused: number) => growPauseMs(pauses.refusedToken, refused + 1);

/**
 * The bearer token of one client, shared by all callers (docs/interface.md, 3.1 Rules). Only one
 * token request runs at a time.
 */
export class TokenSource {
  readonly #http: WarehouseHttp;
  readonly #credentials: Credentials;
  #current:
    | { token: string; renewAtMs: number; issuedAtMs: number; isAccepted: boolean }
    | undefined;
  /**
   * Operations answered with 401 since they last succeeded, and from when a 401 may cause a new
   * token again.
   */
  readonly #refusals = new Map<
    OperationName,
    { readonly times: number; readonly renewAtMs: number }
  >();
  /** Number of consecutive tokens that were discarded and that the service never accepted. */
  #fruitless = 0;
  #renewal: Promise<string> | undefined;

  constructor(http: WarehouseHttp, credentials: Credentials) {
    this.#http = http;
    this.#credentials = credentials;
  }

  /**
   * Returns a valid token, and requests a new one if needed.
   * @throws WarehouseError `credentials_refused` if the service refuses the user name and password
   */
  get(signal: AbortSignal): Promise<string> {
    const token = this.#getShared();
    return typeof token === 'string' ? Promise.resolve(token) : waitUnlessAborted(token, signal);
  }

  /** Returns the present token, or the request for a new one, which all callers share. */
  #getShared(): string | Promise<string> {
    if (this.#current !== undefined && performance.now() < this.#current.renewAtMs)
      return this.#current.token;
    this.#renewal ??= this.#renew().finally(() => {
      this.#renewal = undefined;
    });
    return this.#renewal;
  }

  /** Records that the service accepted this token for an operation. */
  accept(token: string, operation: OperationName): void {
    const current = this.#current;
    if (current?.token !== token) return;
    current.isAccepted = true;
    this.#refusals.delete(operation);
  }

  /**
   * Records that the service answered 401 to this token. Only the first caller causes a new token.
   * The token is kept if it was just issued, or if a new token did not help before: then the
   * service refuses the operation, not the token.
   * @returns true if the next request will use another token
   */
  reject(token: string, operation: OperationName): boolean {
    const current = this.#current;
    if (current?.token !== token) return true;

    const nowMs = performance.now();
    const refusal = this.#refusals.get(operation) ?? { times: 0, renewAtMs: 0 };
    const isFresh =
      !current.isAccepted && nowMs < current.issuedAtMs + toKeepMs(this.#fruitless - 1);
    if ((isFresh && this.#fruitless > 0) || nowMs < refusal.renewAtMs) return false;

    this.#fruitless = current.isAccepted ? 0 : this.#fruitless + 1;
    this.#refusals.set(operation, {
      times: refusal.times + 1,
      renewAtMs: nowMs + toKeepMs(refusal.times),
    });
    this.#current = undefined;
    return true;
  }

  /**
   * Requests a new token. Only the HTTP timeouts end the request: if one caller stops, the others
   * still need the token.
   */
  async #renew(): Promise<string> {
    const { signal } = new AbortController();
    const askedAtMs = performance.now();

    const body = new URLSearchParams({ grant_type: 'password', ...this.#credentials }).toString();
    const headers = { 'content-type': 'application/x-www-form-urlencoded' };
    const answer = await this.#http
      .read({ operation: 'common.token', headers, body, signal })
      .catch((error: unknown) => {
        throw isRefusal(error) ? makeCredentialsRefusedError(error) : error;
      });

    const { token, seconds } = decodeToken(answer.body);
    const lifeMs = seconds * 1_000;
    const renewAtMs = askedAtMs + Math.max(lifeMs * 0.9, lifeMs - renewalMarginMs);
    this.#current = { token, renewAtMs, issuedAtMs: performance.now(), isAccepted: false };
    return token;
  }
}

/**
 * Waits for the work, or throws when the caller's signal is aborted. The work itself continues for
 * other callers.
 */
async function waitUnlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const abort = Promise.withResolvers<never>();
  const rejectAborted = () => abort.reject(toStopError(signal));
  if (signal.aborted) rejectAborted();
  signal.addEventListener('abort', rejectAborted, { once: true });

  try {
    return await Promise.race([work, abort.promise]);
  } finally {
    signal.removeEventListener('abort', rejectAborted);
  }
}

/**
 * Reads the token answer.
 * @throws WarehouseError `undecodable`, which names the member at fault. It shows neither the body
 *   nor the token
 */
function decodeToken(body: string): GrantedToken {
  const answer = parseBody(body);
  if (answer === undefined) throw makeTokenError('the answer is not readable JSON');
  if (!isObject(answer))
    throw makeTokenError(`the answer is ${describeValue(answer)}, not an object`);

  const { access_token: token, token_type: type, expires_in: life } = answer;

  const tokenProblem = findTokenProblem(token);
  if (tokenProblem !== null) throw makeTokenError(`access_token ${tokenProblem}`);

  const describe = (value: Json | undefined) => describeValue(value, String(token));
  const isBearer = typeof type === 'string' && type.toLowerCase() === 'bearer';
  if (type !== undefined && type !== null && !isBearer)
    throw makeTokenError(`token_type is ${describe(type)}; it must be bearer`);

  const seconds = readSeconds(life);
  if (seconds === null)
    throw makeTokenError(
      `expires_in is ${describe(life)}; it must be a whole number of seconds above 0`,
    );

  return { token: String(token), seconds };
}

const makeTokenError = (problem: string) =>
  makeUndecodableError(`common.token: ${problem}`, 'common.token');

/** Returns why a value is no token; null if it is one. */
function findTokenProblem(token: Json | undefined): string | null {
  if (token === '') return 'is empty; it must be a text';
  if (typeof token !== 'string') return `is ${describeKind(token)}; it must be a text`;
  if (token.length > maxTokenCharacters)
    return `has ${token.length} characters; the maximum is ${maxTokenCharacters}`;
  return /^[\x21-\x7e]+$/.test(token) ? null : 'holds a character that no header can carry';
}

/**
 * Returns the life of a token in seconds. Some services send digits as text. Returns null for
 * anything else.
 */
function readSeconds(life: Json | undefined): number | null {
  const value = JSON.isRawJSON(life) ? life.rawJSON : life;
  const isNumber = JSON.isRawJSON(life) || typeof life === 'number';
  const isDigits = typeof life === 'string' && /^\d{1,16}$/.test(life);
  const seconds = isNumber || isDigits ? Math.floor(Number(value)) : 0;
  return seconds >= 1 && seconds <= Number.MAX_SAFE_INTEGER ? seconds : null;
}

/**
 * Describes a value for an error. Shows short values, unless they may be a part of the token.
 * @param token the token; empty: no text is shown
 */
function describeValue(value: Json | undefined, token = ''): string {
  const isShown = typeof value === 'boolean' || typeof value === 'number' || JSON.isRawJSON(value);
  if (isShown) return quote(JSON.stringify(value).slice(0, maxShownCharacters));
  if (typeof value !== 'string' || token === '') return describeKind(value);

  const mayShow = value === '' || (value.length <= maxShownCharacters && !token.includes(value));
  return mayShow ? quote(value) : `a text of ${value.length} characters`;
}

function describeKind(value: Json | undefined): string {
  if (value === undefined) return 'missing';
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'string') return 'a text';
  if (typeof value === 'boolean') return 'a boolean';
  return isObject(value) ? 'an object' : 'a number';
}

function isRefusal(error: unknown): error is WarehouseError {
  if (!(error instanceof WarehouseError) || error.status === undefined) return false;
  return error.status >= 400 && error.status < 500 && ![408, 425, 429].includes(error.status);
}

function makeCredentialsRefusedError(cause: WarehouseError): WarehouseError {
  return new WarehouseError(
    'credentials_refused',
    'The service refused the user name and password; check them with the issuer',
    { outcome: 'refused', cause, ...(cause.status === undefined ? {} : { status: cause.status }) },
  );
}
