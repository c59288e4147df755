/** This folder: what is posted to webhooks: business events, and problems that begin and end. */

import { Webhook } from 'standardwebhooks';
import type { Dispatcher } from 'undici';
import { type Answer, judgeStatus } from '../../core/delivery.ts';
import { describeError } from '../../core/errors.ts';

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

/**
 * Posts a body once, signed by Standard Webhooks. Redirects are not followed.
 * @param id number of the message, the same for each attempt
 */
export async function postWebhook(
  { url: address, secret, dispatcher, timeoutMs }: WebhookOptions,
  id: string,
  body: string,
  stop: AbortSignal,
): Promise<Answer> {
  const deadline = AbortSignal.timeout(timeoutMs);

  try {
    const url = new URL(address);
    const now = new Date();
    const signature =
      secret === undefined ? {} : { 'webhook-signature': new Webhook(secret).sign(id, now, body) };

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
      signal: AbortSignal.any([stop, deadline]),
    });
    // The status says everything. An answer that is too long or breaks off changes nothing.

    await answer.body.dump({ limit: maxAnswerBytes }).catch(() => undefined);
    return judgeStatus(answer.statusCode, readRetryAfterMs(answer.headers['retry-after']));
  } catch (failure) {
    if (!stop.aborted && (deadline.aborted || isTimeout(failure)))
      return {
        kind: 'away',
        code: 'timeout',
        error: `the receiver did not answer within ${timeoutMs} ms`,
      };
    return { kind: 'away', code: readCode(failure), error: describeError(failure) };
  }
}

const isTimeout = (failure: unknown) => /^UND_ERR_(HEADERS|BODY)_TIMEOUT$/.test(readCode(failure));

/** Returns the code of an error of the connection, such as ECONNREFUSED. */
const readCode = (failure: unknown) =>
  failure instanceof Error && 'code' in failure && typeof failure.code === 'string'
    ? failure.code
    : 'connection_lost';

/**
 * Returns the time to wait that a receiver names in seconds. Other forms of Retry-After are
 * ignored.
 */
function readRetryAfterMs(header: string | string[] | undefined): number | undefined {
  const text = Array.isArray(header) ? header[0] : header;
  return text !== undefined && /^\d{1,6}$/.test(text) ? Number(text) * 1_000 : undefined;
}
