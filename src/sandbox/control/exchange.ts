import { notFound } from '../refusal.ts';
import type { LoggedRequest, RequestLog } from '../requests/request-log.ts';
import { hideSecrets } from '../requests/secrets.ts';

/** A logged request with what is kept of its bodies. Secrets are hidden. */
export interface Exchange extends LoggedRequest {
  readonly contentType: string | null;
  /** Null if there was none, or if it is not kept. */
  readonly requestBody: string | null;
  readonly answerBody: string | null;
  /** Whether only the beginning of a body is kept. */
  readonly cut: boolean;
  /** Whether the bodies are kept: only those of the latest requests are. */
  readonly kept: boolean;
  readonly hasToken: boolean;
}

/**
 * Returns a logged request with its bodies.
 * @param mark the text that replaces each secret in the bodies
 * @throws Refusal if the log does not hold the request
 */
export function readExchange(log: RequestLog, place: number, mark?: string): Exchange {
  const entry = log.get(place);
  if (entry === undefined) throw notFound(`request in the log: ${place}`);
  const kept = log.bodies.get(place);
  const bodies = [kept?.request ?? null, kept?.answer ?? null] as const;
  const [requestBody, answerBody] = bodies.map((body) => (body === null ? null : hideSecrets(body.text, mark)));
  return {
    ...entry,
    contentType: kept?.contentType ?? null,
    requestBody: requestBody ?? null,
    answerBody: answerBody ?? null,
    cut: bodies.some((body) => body !== null && body.length > body.text.length),
    kept: kept !== undefined,
    hasToken: kept?.hasToken ?? entry.client !== null,
  };
}
