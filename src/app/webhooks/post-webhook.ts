/** Posts to webhooks, signed by Standard Webhooks. */

import { Webhook } from 'standardwebhooks';
import type { Dispatcher } from 'undici';
import { errorFields } from '../logging/logger.ts';

/** Maximum bytes read of an answer, which is not used. */
const maxAnswerBytes = 16 * 1024;

/** A receiver of posts. */
export interface WebhookOptions {
  /** The path may be secret: no error and no log line shows it. */
  readonly url: string;
  /** Undefined: posts are not signed. */
  readonly secret: string | undefined;
  readonly dispatcher: Dispatcher;
  readonly timeoutMs: number;
}

/** The result of an attempt; `error` says why the receiver did not take the post. */
export type Delivery =
  | { readonly delivered: true }
  | { readonly delivered: false; readonly code: string; readonly error: string; readonly retryAfterMs?: number };

/**
 * Posts a body once, signed by Standard Webhooks. Redirects are not followed.
 * @param id number of the message, the same for each attempt
 */
export async function postWebhook(
  { url: address, secret, dispatcher, timeoutMs }: WebhookOptions,
  id: string,
  body: string,
  stop: AbortSignal,
): Promise<Delivery> {
  try {
    const url = new URL(address);
    const now = new Date();
    const signature = secret === undefined ? {} : { 'webhook-signature': new Webhook(secret).sign(id, now, body) };
    const answer = await dispatcher.request({
      origin: url.origin,
      path: url.pathname + url.search,
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'webhook-id': id,
        'webhook-timestamp': String(Math.floor(now.getTime() / 1_000)),
        ...signature,
      },
      body,
      headersTimeout: timeoutMs,
      bodyTimeout: timeoutMs,
      signal: AbortSignal.any([stop, AbortSignal.timeout(timeoutMs)]),
    });
    // The status says everything. An answer that is too long or breaks off changes nothing.
    await answer.body.dump({ limit: maxAnswerBytes }).catch(() => undefined);
    const { statusCode: status, headers } = answer;
    if (status >= 200 && status < 300) return { delivered: true };
    const redirected = status >= 300 && status < 400 ? '; redirects are not followed' : '';
    const error = `the receiver answered ${status}${redirected}`;
    return { delivered: false, code: `http_${status}`, error, ...readRetryAfter(headers['retry-after']) };
  } catch (failure) {
    if (isLate(failure)) {
      const error = `the receiver did not answer within ${timeoutMs} ms`;
      return { delivered: false, code: 'timeout', error };
    }
    const { code, error } = errorFields(failure);
    return { delivered: false, code: stop.aborted ? 'stopped' : code, error };
  }
}

/** Returns true for the errors of a post that was not answered in time. The one of our own limit has no code as text. */
const isLate = (failure: unknown): boolean =>
  failure instanceof Error &&
  (failure.name === 'TimeoutError' ||
    ('code' in failure && /^UND_ERR_(HEADERS|BODY)_TIMEOUT$/.test(String(failure.code))));

/** Returns the time to wait that a receiver names in seconds. Other forms of Retry-After are ignored. */
function readRetryAfter(header: string | string[] | undefined): { retryAfterMs?: number } {
  const text = Array.isArray(header) ? header[0] : header;
  return text !== undefined && /^\d{1,6}$/.test(text) ? { retryAfterMs: Number(text) * 1_000 } : {};
}
