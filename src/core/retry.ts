import type { WarehouseError } from './errors.ts';

export interface RetryPolicy {
  readonly maxAttempts: number;
  readonly baseMs: number;
  readonly capMs: number;
  /** If the Retry-After is longer than this, the read fails at once, with the Retry-After in its error. */
  readonly maxRetryAfterMs: number;
}

/** The policy for reads, which are safe to repeat: four attempts within about ten seconds. */
const readPolicy: RetryPolicy = { maxAttempts: 4, baseMs: 250, capMs: 4_000, maxRetryAfterMs: 10_000 };

const transientStatuses = new Set([408, 425, 429]);

/**
 * Returns how long to wait before a failed read is repeated: an exponential backoff with full jitter, not before
 * Retry-After.
 * @param attempt number of attempts so far, from 1
 * @param random a number in [0, 1)
 * @returns milliseconds to wait, or null to give up
 */
export function readRetryDelayMs(
  error: WarehouseError,
  attempt: number,
  random: number,
  policy: RetryPolicy = readPolicy,
): number | null {
  if (attempt >= policy.maxAttempts || !isTransient(error)) return null;
  const backoff = random * Math.min(policy.capMs, policy.baseMs * 2 ** (attempt - 1));
  if (error.retryAfterMs === undefined) return backoff;
  return error.retryAfterMs > policy.maxRetryAfterMs ? null : error.retryAfterMs + backoff;
}

function isTransient(error: WarehouseError): boolean {
  if (error.status !== undefined && error.status >= 400) {
    return error.status >= 500 || transientStatuses.has(error.status);
  }
  return ['connect_failed', 'timeout', 'connection_lost'].includes(error.code);
}

/** How often and how long a row is sent before it is given up (PUSH_MAX_ATTEMPTS, PUSH_MAX_AGE). */
export interface PushPolicy {
  readonly maxAttempts: number;
  readonly maxAgeMs: number;
}

const pushBaseMs = 1_000;
/** Maximum pause between two attempts, even if Retry-After asks for a longer one. */
const pushCapMs = 15 * 60_000;

/**
 * Returns how long to wait before a row is sent again: an exponential backoff with full jitter, not before Retry-After,
 * at most 15 minutes.
 * @param attempt number of attempts so far, from 1
 * @param random a number in [0, 1)
 * @returns milliseconds to wait
 */
export function pushRetryDelayMs(attempt: number, retryAfterMs: number | undefined, random: number): number {
  const backoffMs = random * Math.min(pushCapMs, pushBaseMs * 2 ** Math.min(attempt - 1, 30));
  return Math.round(Math.min(pushCapMs, (retryAfterMs ?? 0) + backoffMs));
}
