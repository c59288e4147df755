import { pauses, toPauseMs } from '../core/backoff.ts';
import type { UnknownRule } from './push-outcome.ts';

/** Number of lost workers after which a row becomes dead: its payload may have crashed them. */
const maxLosses = 5;
const givenUpError =
  `its worker was lost ${maxLosses} times in a row, perhaps because of this payload. ` +
  'Look into the logs of the workers, then replace the payload or cancel the row';

/** A claim whose worker does not renew it any more. */
export interface LostClaim {
  /** True if the request may have been written. */
  readonly isSent: boolean;
  /** Number of workers that were lost before, since the last attempt that ended. */
  readonly losses: number;
  readonly lastError: string | null;
}

/** What a row becomes whose worker was lost. */
export interface LostVerdict {
  readonly became: 'pending' | 'unknown' | 'dead';
  /** Time until it is sent or looked up; null: it is dead, or a person decides. */
  readonly delayMs: number | null;
  readonly error: string | null;
  /** The reason with which it becomes dead unless a look-up finds that it was carried out. */
  readonly refusal: string | null;
}

/**
 * Decides what becomes of a row whose worker was lost. A row that was certainly not sent is sent
 * again. Otherwise the rule of its kind decides. A row that lost five workers in a row is dead,
 * unless a look-up finds that it was carried out.
 * @param rule rule of its kind; it does not matter for a row that was not sent
 * @param operatorError what an operator reads on a row that only a person can decide
 * @param random a number in [0, 1), for the jitter
 */
export function judgeLost(
  { isSent, losses, lastError }: LostClaim,
  rule: UnknownRule,
  operatorError: string,
  random: number,
): LostVerdict {
  const isLast = losses >= maxLosses - 1;
  const lost = 'its worker was lost while sending';

  if (isSent && rule === 'ask operator')
    return { became: 'unknown', delayMs: null, error: `${lost}. ${operatorError}`, refusal: null };

  if (isSent && rule === 'look up') {
    const refusal = isLast ? givenUpError : null;
    return { became: 'unknown', delayMs: 0, error: `${lost}; being looked up`, refusal };
  }

  if (isLast) return { became: 'dead', delayMs: null, error: givenUpError, refusal: null };

  if (isSent) return { became: 'pending', delayMs: 0, error: `${lost}; sent again`, refusal: null };

  // Rows that were claimed together are spread over time, so that only the row at fault is lost
  // again.
  const delayMs = toPauseMs(pauses.takeover, losses, random);
  return { became: 'pending', delayMs, error: lastError, refusal: null };
}
