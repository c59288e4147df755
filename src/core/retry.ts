import type { WarehouseError } from './errors.ts';

export interface RetryPolicy {
  readonly maxAttempts: number;
  readonly baseMs: number;
  readonly capMs: number;
  /** A longer Retry-After ends the attempts here; the caller is told when to come back. */
  readonly maxRetryAfterMs: number;
}

/** For reads, which may be repeated freely: four attempts within about ten seconds. */
const readPolicy: RetryPolicy = { maxAttempts: 4, baseMs: 250, capMs: 4_000, maxRetryAfterMs: 10_000 };

const passingStatuses = new Set([408, 425, 429]);

/**
 * Whether, and after how long, a failed read is asked again: exponential with full jitter, never before Retry-After.
 * @param attempt attempts made so far, from 1
 * @param random a number in [0, 1)
 * @returns milliseconds to wait, or null to give up
 */
export function readRetryDelayMs(
  error: WarehouseError,
  attempt: number,
  random: number,
  policy: RetryPolicy = readPolicy,
): number | null {
  if (attempt >= policy.maxAttempts || !isPassing(error)) return null;
  const backoff = random * Math.min(policy.capMs, policy.baseMs * 2 ** (attempt - 1));
  if (error.retryAfterMs === undefined) return backoff;
  return error.retryAfterMs > policy.maxRetryAfterMs ? null : error.retryAfterMs + backoff;
}

function isPassing(error: WarehouseError): boolean {
  if (error.status !== undefined && error.status >= 400) {
    return error.status >= 500 || passingStatuses.has(error.status);
  }
  return ['connect_failed', 'timeout', 'connection_lost'].includes(error.code);
}

/** How long and how often a push is tried (PUSH_MAX_ATTEMPTS, PUSH_MAX_AGE). */
export interface PushPolicy {
  readonly maxAttempts: number;
  readonly maxAgeMs: number;
}

const pushBaseMs = 1_000;
/** No pause between two attempts is longer, whatever Retry-After says. */
const pushCapMs = 15 * 60_000;

/**
 * How long after a failed attempt a push is sent again: exponential with full jitter, never before Retry-After, at most
 * 15 minutes.
 * @param attempt attempts made so far, from 1
 * @param random a number in [0, 1)
 */
export function pushRetryDelayMs(attempt: number, retryAfterMs: number | undefined, random: number): number {
  const backoffMs = random * Math.min(pushCapMs, pushBaseMs * 2 ** Math.min(attempt - 1, 30));
  return Math.round(Math.min(pushCapMs, (retryAfterMs ?? 0) + backoffMs));
}
