import { growPauseMs, longestWaitMs, pauses } from '../core/backoff.ts';
import { minuteMs } from '../core/time.ts';
import {
  findGiveUpReason,
  operatorChoices,
  type PushPolicy,
  type RefusedAs,
  type Verdict,
} from './push-outcome.ts';

/**
 * What an answer without the row is worth. `read`: the resource that the row changes was read
 * itself. `newer list`: the list also shows what the service accepted after the attempt. `list`:
 * the list may be older than the attempt.
 */
export type AbsenceBasis = 'read' | 'newer list' | 'list';

/**
 * Longest time that a list of the service is taken to lag (docs/assumptions.md). An absence in a
 * list that may be older than the attempt counts only after this time.
 */
export const longestListLagMs = 5 * minuteMs;

/** A row that is looked up. Its spans are measured by the database's clock. */
export interface LookedUpRow {
  /** Time since the last attempt that the service may have carried out; null if there is none. */
  readonly sinceWrittenMs: number | null;
  /** Number of counted absences so far. */
  readonly absences: number;
  /** Time since the last look-up that did not find the row; null if there is none. */
  readonly sinceAbsentMs: number | null;
  /** Number of look-ups since the last attempt, without this one. */
  readonly lookups: number;
  /**
   * Why the row becomes dead if it is not found: the service refused the last attempt, or the row
   * was given up.
   */
  readonly refusal: string | null;
  /** What that says about an earlier attempt; null if it is no refusal of the service. */
  readonly refusedAs: RefusedAs | null;
  readonly attempts: number;
  readonly ageMs: number;
  /** The wait that the service asked for; 0 if it did not ask for one. */
  readonly retryAfterMs: number;
  /** The consequence of a confirmed absence: the row is sent again, or a person decides. */
  readonly whenAbsent: 'resend' | 'ask operator';
}

/**
 * The outcome of a look-up that did not find the row. `counts`: it is one of the two absences that
 * confirm each other.
 */
export type AbsenceVerdict = Verdict & { readonly counts?: boolean };

/** The result of a look-up that did not find the row. */
export interface MissedLookUp {
  /** `no answer`: it is not known whether the row is there. */
  readonly seen: AbsenceBasis | 'no answer';
  /** The text that the row shows while it is unknown. */
  readonly why: string;
}

/**
 * Returns the time after an attempt from which an absence counts: twice the HTTP timeout, or one
 * minute if that is longer. Before that, the service may still carry out the attempt.
 */
export function minAbsenceAgeMs(timeoutMs: number): number {
  return Math.max(2 * timeoutMs, minuteMs);
}

/**
 * Decides what follows from a look-up that did not find the row. An absence counts only some time
 * after the last attempt, and two absences must confirm each other: the service may still carry out
 * an interrupted request, and its lists lag. A refusal after an attempt that may have been carried
 * out may say that the service has the row already, in words that nobody knows: only a list that is
 * newer than the attempt proves that it does not. Until then the row is looked for, and left to a
 * person when it is too old.
 */
export function judgeAbsence(
  row: LookedUpRow,
  { seen, why }: MissedLookUp,
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
  const isTooOld = row.ageMs >= policy.maxAgeMs;
  if (seen === 'no answer' && !isTooOld)
    return again(Math.max(backoffMs, Math.min(longestWaitMs, row.retryAfterMs)));
  if (sinceWrittenMs === null) return { status: 'dead', error: refusal ?? 'it was refused' };
  if (seen === 'no answer') return leaveToOperator(`${why}, for longer than PUSH_MAX_AGE`);

  if (mayBeTaken(row, seen)) {
    if (!isTooOld) return again(backoffMs);
    return leaveToOperator(`${why}; an earlier attempt may be what it means, but no list shows it`);
  }

  const fromMs =
    seen === 'list'
      ? Math.max(longestListLagMs, minAbsenceAgeMs(timeoutMs))
      : minAbsenceAgeMs(timeoutMs);
  const believedInMs = fromMs - sinceWrittenMs;
  if (believedInMs > 0)
    return again(Math.min(limitPauseMs(row, backoffMs, timeoutMs), believedInMs));

  const betweenAbsencesMs = pauses.secondAbsence.firstMs;
  if (row.absences === 0 || row.sinceAbsentMs === null) return again(betweenAbsencesMs, true);
  if (row.sinceAbsentMs < betweenAbsencesMs) return again(betweenAbsencesMs - row.sinceAbsentMs);
  return confirmAbsence(row, policy);
}

/**
 * Returns true if the service may have refused a row because it has it, which this absence does not
 * disprove.
 */
function mayBeTaken({ refusedAs }: LookedUpRow, seen: AbsenceBasis): boolean {
  if (refusedAs === null || seen === 'read') return false;
  return refusedAs === 'taken' || seen === 'list';
}

/**
 * Returns the pause before the next look-up of a row that is absent in a list which may be too old.
 * The list may show any moment that it is new enough.
 */
function limitPauseMs(
  { sinceWrittenMs }: LookedUpRow,
  backoffMs: number,
  timeoutMs: number,
): number {
  const isOldEnough = (sinceWrittenMs ?? 0) >= minAbsenceAgeMs(timeoutMs);
  return isOldEnough ? Math.min(backoffMs, pauses.secondAbsence.firstMs) : backoffMs;
}

/** Decides about a row that two look-ups, far enough apart, did not find. */
function confirmAbsence(row: LookedUpRow, policy: PushPolicy): AbsenceVerdict {
  if (row.refusal !== null) return { status: 'dead', error: row.refusal };
  if (row.whenAbsent === 'ask operator')
    return leaveToOperator('not found at the service, looked up twice');

  const giveUpReason = findGiveUpReason(row, policy);
  if (giveUpReason !== null)
    return {
      status: 'dead',
      error: `not at the service, looked up twice; given up ${giveUpReason}`,
    };

  const error = 'not at the service, looked up twice: sent again';

  return { status: 'pending', error, delayMs: 0, countsAsAttempt: true, counts: true };
}

/**
 * Returns how long the list of a row that was found had lagged: from the attempt until a list
 * showed the row. Returns null if that is not known, or if no look-up had missed the row.
 * @param listedAgoMs how long ago a list first showed the row
 */
export function measureListLagMs(
  row: Pick<LookedUpRow, 'sinceWrittenMs' | 'sinceAbsentMs'> & { readonly overdueMs: number },
  listedAgoMs: number | undefined,
): number | null {
  const { sinceWrittenMs, sinceAbsentMs, overdueMs } = row;
  if (sinceWrittenMs === null || sinceAbsentMs === null || listedAgoMs === undefined) return null;
  // A look-up that was late, because no worker ran, says nothing about the time that it was late.
  const untilShownMs = sinceWrittenMs - Math.max(listedAgoMs, overdueMs);
  const lagMs = Math.max(untilShownMs, sinceWrittenMs - sinceAbsentMs);
  return lagMs > 0 ? lagMs : null;
}

/** Makes the verdict of a row that only a person can decide, unless it turns up. */
export const leaveToOperator = (why: string): AbsenceVerdict => ({
  status: 'unknown',
  error: `${why}. ${operatorChoices}`,
  delayMs: null,
});
