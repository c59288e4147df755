import { growPauseMs, longestWaitMs, pauses } from '../backoff.ts';
import { findGiveUpReason, operatorChoices, type PushPolicy, type Verdict } from './push-outcome.ts';

/** A row that is looked up. Its spans are measured by the database's clock. */
export interface LookedUpRow {
  /** Time since the last attempt that the service may have carried out; null if there is none. */
  readonly sinceWrittenMs: number | null;
  /** Number of counted absences so far. */
  readonly absences: number;
  /** Time since the last counted absence; null if there is none. */
  readonly sinceAbsentMs: number | null;
  /** Number of look-ups since the last attempt, without this one. */
  readonly lookups: number;
  /** The service's answer to the last attempt, if it was a refusal. */
  readonly refusal: string | null;
  readonly attempts: number;
  readonly ageMs: number;
  /** The wait that the service asked for; 0 if it did not ask for one. */
  readonly retryAfterMs: number;
  /** The consequence of a confirmed absence: the row is sent again, or a person decides. */
  readonly whenAbsent: 'resend' | 'ask operator';
}

/**
 * The outcome of a look-up that did not find the row. `counts`: it is one of the two absences that confirm each other.
 */
export type AbsenceVerdict = Verdict & { readonly counts?: boolean };

/**
 * Returns the time after an attempt from which an absence counts: twice the HTTP timeout, or one minute if that is
 * longer. Before that, the service may still carry out the attempt.
 */
export function minAbsenceAgeMs(timeoutMs: number): number {
  return Math.max(2 * timeoutMs, 60_000);
}

/**
 * Decides what follows from a look-up that did not find the row. An absence counts only some time after the last
 * attempt, and two absences must confirm each other: the service may still carry out an interrupted request, and its
 * lists lag.
 * @param why the text that the row shows while it is unknown
 */
export function judgeAbsence(
  row: LookedUpRow,
  seen: 'absent' | 'no answer',
  why: string,
  timeoutMs: number,
  policy: PushPolicy,
): AbsenceVerdict {
  const { refusal, sinceWrittenMs } = row;
  const again = (delayMs: number, counts = false): AbsenceVerdict => ({
    status: 'unknown',
    error: why,
    delayMs,
    counts,
    ...(refusal === null ? {} : { refusal }),
  });
  const backoffMs = growPauseMs(pauses.lookUp, row.lookups + 1);
  const betweenAbsencesMs = pauses.secondAbsence.firstMs;
  const toOperator = (words: string): AbsenceVerdict => ({
    status: 'unknown',
    error: `${words}. ${operatorChoices}`,
    delayMs: null,
  });
  if (seen === 'no answer' && row.ageMs < policy.maxAgeMs)
    return again(Math.max(backoffMs, Math.min(longestWaitMs, row.retryAfterMs)));
  if (sinceWrittenMs === null) return { status: 'dead', error: refusal ?? 'it was refused' };
  if (seen === 'no answer') return toOperator(`${why}, for longer than PUSH_MAX_AGE`);
  const believedInMs = minAbsenceAgeMs(timeoutMs) - sinceWrittenMs;
  if (believedInMs > 0) return again(Math.min(backoffMs, believedInMs));
  if (row.absences === 0 || row.sinceAbsentMs === null) return again(betweenAbsencesMs, true);
  if (row.sinceAbsentMs < betweenAbsencesMs) return again(betweenAbsencesMs - row.sinceAbsentMs);
  if (refusal !== null) return { status: 'dead', error: refusal };
  if (row.whenAbsent === 'ask operator') return toOperator('not found at the service, looked up twice');
  const giveUpReason = findGiveUpReason(row, policy);
  if (giveUpReason !== null)
    return { status: 'dead', error: `not at the service, looked up twice; given up ${giveUpReason}` };
  const error = 'not at the service, looked up twice: sent again';
  return { status: 'pending', error, delayMs: 0, countsAsAttempt: true, counts: true };
}
