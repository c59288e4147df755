import { givenUp, operatorChoices, type Verdict } from './push-outcome.ts';
import type { PushPolicy } from './retry.ts';

/** A row that is looked up; spans by the database's clock. */
export interface LookedUp {
  /** Since the last attempt that may have been carried out; null where none may. */
  readonly sinceWrittenMs: number | null;
  /** Absences so far that count. */
  readonly absences: number;
  readonly sinceAbsentMs: number | null;
  /** Look-ups since the last attempt, this one not counted. */
  readonly lookups: number;
  readonly refusal: string | null;
  readonly attempts: number;
  readonly ageMs: number;
  /** What the service asked to wait; 0 where it did not. */
  readonly retryAfterMs: number;
  /** What a believed absence means: it is sent again, or a person decides. */
  readonly whenAbsent: 'resend' | 'ask operator';
}

/** What follows where a row was not found. `counts`: this absence is one of the two that are believed. */
export type AbsenceVerdict = Verdict & { readonly counts?: boolean };

/** Between the two absences that are believed. */
const betweenAbsencesMs = 30_000;
const lookUpCapMs = 15 * 60_000;

/** How long after an attempt an absence begins to count (contracts, Outcome rules). */
export function beliefMs(timeoutMs: number): number {
  return Math.max(2 * timeoutMs, 60_000);
}

/**
 * What follows from a look-up that did not find the row. Absent is believed only a good while after the last attempt, and
 * twice: a request that was cut off may still be carried out, and lists lag behind.
 */
export function judgeAbsence(
  row: LookedUp,
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
  const backoffMs = Math.min(lookUpCapMs, 1_000 * 2 ** Math.min(row.lookups + 1, 20));
  const toOperator = (words: string): AbsenceVerdict => ({
    status: 'unknown',
    error: `${words}. ${operatorChoices}`,
    delayMs: null,
  });
  if (seen === 'no answer')
    return row.ageMs >= policy.maxAgeMs
      ? toOperator(`${why}; so for PUSH_MAX_AGE`)
      : again(Math.max(backoffMs, Math.min(lookUpCapMs, row.retryAfterMs)));
  if (sinceWrittenMs === null) return { status: 'dead', error: refusal ?? 'it was refused' };
  const believedInMs = beliefMs(timeoutMs) - sinceWrittenMs;
  if (believedInMs > 0) return again(Math.min(backoffMs, believedInMs));
  if (row.absences === 0 || row.sinceAbsentMs === null) return again(betweenAbsencesMs, true);
  if (row.sinceAbsentMs < betweenAbsencesMs) return again(betweenAbsencesMs - row.sinceAbsentMs);
  if (refusal !== null) return { status: 'dead', error: refusal };
  if (row.whenAbsent === 'ask operator') return toOperator('not found at the service, looked up twice');
  const given = givenUp(row, policy);
  if (given !== null) return { status: 'dead', error: `not at the service, looked up twice; given up ${given}` };
  const error = 'not at the service, looked up twice: sent again';
  return { status: 'pending', error, delayMs: 0, burnt: true, counts: true };
}
