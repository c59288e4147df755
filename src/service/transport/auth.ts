import { z } from 'zod';
import type { OperationName } from '../../../config/operations.ts';
import { growPauseMs, pauses } from '../../core/backoff.ts';
import { makeUndecodableError, toStopError, WarehouseError } from '../../core/errors.ts';
import type { WarehouseHttp } from './http.ts';
import { parseBody } from './http-error.ts';

const wrongLife = 'must be a whole number of seconds above 0';

/**
 * The part of the token answer that is used (docs/interface.md, 3.3 Token response). Some services
 * send the seconds as text. Servers refuse headers that are longer.
 */
const tokenSchema = z.object(
  {
    access_token: z
      .string('must be a text')
      .min(1, 'is empty')
      .max(16_384, 'is too long for a header')
      .regex(/^[\x21-\x7e]*$/, 'holds a character that no header can carry'),
    token_type: z
      .string('must be bearer')
      .regex(/^bearer$/i, 'must be bearer')
      .nullish(),
    expires_in: z.preprocess(
      (life) => (JSON.isRawJSON(life) ? life.rawJSON : life),
      z
        .union([z.number(), z.string()], wrongLife)
        .transform((life) => Math.floor(Number(life)))
        .pipe(z.int(wrongLife).min(1, wrongLife)),
    ),
  },
  'is not an object',
);

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
   * @throws WarehouseError `credentials_refused` if the service refuses the user name and password,
   *   or has no such path
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

    const { access_token: token, expires_in: seconds } = decodeToken(answer.body);
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
function decodeToken(body: string): z.infer<typeof tokenSchema> {
  const operation = 'common.token';
  const answer = parseBody(body);
  if (answer === undefined)
    throw makeUndecodableError(`${operation}: the answer is not readable JSON`, operation);

  const { data, error } = tokenSchema.safeParse(answer);
  if (data !== undefined) return data;

  const [issue] = error.issues;
  const member = issue?.path.join('.') || 'the answer';
  throw makeUndecodableError(`${operation}: ${member} ${issue?.message}`, operation);
}

function isRefusal(error: unknown): error is WarehouseError {
  if (!(error instanceof WarehouseError) || error.status === undefined) return false;
  return error.status >= 400 && error.status < 500 && ![408, 425, 429].includes(error.status);
}

/** Returns true if a refusal of the token request says that the service has no such path. */
export const lacksTokenPath = (status: number | null | undefined): boolean =>
  status === 404 || status === 405;

function makeCredentialsRefusedError(cause: WarehouseError): WarehouseError {
  return new WarehouseError(
    'credentials_refused',
    lacksTokenPath(cause.status)
      ? `The service answered POST /token with ${cause.status}; check the base URL`
      : 'The service refused the user name and password; check them with the issuer',
    { outcome: 'refused', cause, ...(cause.status === undefined ? {} : { status: cause.status }) },
  );
}
