/**
 * The rules of outcomes: what becomes of a row after a failed attempt, after a look-up that did not
 * find it, and after its worker was lost.
 */

import { growPauseMs, longestWaitMs, pauses, toPauseMs } from '../core/backoff.ts';
import { toFailure, type WarehouseError } from '../core/errors.ts';
import { hourMs, minuteMs } from '../core/time.ts';
import {
  describeWrongPath,
  isServiceAnswer,
  mayBeWrongPath,
  readWaitEvidence,
  type ScopedEvidence,
} from '../service/health/evidence.ts';

/** How often and how long a row is sent before it is given up (PUSH_MAX_ATTEMPTS, PUSH_MAX_AGE). */
export interface PushPolicy {
  readonly maxAttempts: number;
  readonly maxAgeMs: number;
}

/**
 * What happens after an attempt with an unknown outcome: the row is looked up at the service, it is
 * sent again (for kinds that may be carried out twice without harm), or a person decides.
 */
export type UnknownRule = 'look up' | 'resend' | 'ask operator';

/**
 * What a refusal of the service says about an earlier attempt that may have been carried out.
 * `taken`: the service has what the row asks for. `perhaps taken`: it may have it, because no
 * answer is parsed for its reason.
 */
type RefusedAs = 'taken' | 'perhaps taken';

/** What becomes of a row after an attempt, after a look-up, or after its worker was lost. */
export interface Verdict {
  readonly status: 'done' | 'dead' | 'pending' | 'unknown';
  readonly error: string | null;
  /**
   * Milliseconds until a pending row is sent again or an unknown row is looked up. Null for
   * unknown: an operator decides.
   */
  readonly delayMs?: number | null;
  /** True if the service may have carried this attempt out. */
  readonly written?: boolean;
  /**
   * True if the attempt does not count: the service was not asked to do anything, or it refused for
   * a reason outside this row.
   */
  readonly refund?: boolean;
  /** True if it was refused for a reason outside this row. The row waits longer each time. */
  readonly isRefusedForOthers?: boolean;
  /** The error that an unknown row dies with if the look-up does not find it. */
  readonly refusal?: string | null;
  /** What the refusal says about an earlier attempt. */
  readonly refusedAs?: RefusedAs | null;
  /** True if this absence is one of the two after which the row is believed to be absent. */
  readonly counts?: boolean;
}

/** A failed attempt, with everything that its outcome depends on. */
export interface FailedAttempt {
  readonly error: WarehouseError;
  /**
   * True if the request that makes the change may have been sent. False if only reads were sent.
   */
  readonly sent: boolean;
  readonly rule: UnknownRule;
  /**
   * True if a refusal counts only after a look-up. Example: order.create, because our earlier
   * attempt may be the order that already has the number.
   */
  readonly doubtsRefusal: boolean;
  /**
   * True if docs/interface.md shows the operation that makes the change, or if it succeeded before.
   */
  readonly documented: boolean;
  /** True if a 404 of that operation can only mean that the service does not have the route. */
  readonly notFoundMeansRoute: boolean;
  /** Number of attempts that count, including this one. */
  readonly attempts: number;
  readonly ageMs: number;
  /**
   * Number of earlier refusals for a reason that does not lie in the row, since the last attempt
   * that counted.
   */
  readonly refusedForOthers: number;
}

/** After this many refusals of one row as too fast, the cause probably lies in that row. */
const maxRefusalsAsEvidence = 3;
/** Added to the attempt number of the backoff if only reads failed. */
const readsFailedStep = 4;

/**
 * Decides what follows from a failed attempt: the row is sent again later, is looked up, waits for
 * an operator, or is dead.
 * @param random a number in [0, 1), for the jitter
 */
export function judgeFailure(failed: FailedAttempt, policy: PushPolicy, random: number): Verdict {
  const { error } = failed;
  const sharedRefusal = findSharedRefusal(failed);
  if (sharedRefusal !== null) {
    // A hold makes all of these rows wait. This pause lets rows that were not tried yet come first.
    // It grows if the cause may lie in the row.
    const doubtedFrom = error.status === 429 ? maxRefusalsAsEvidence : 0;
    const step = Math.max(0, failed.refusedForOthers - doubtedFrom) + 1;
    const delayMs = toPauseMs(pauses.push, step, random, error.retryAfterMs);
    return {
      status: 'pending',
      error: sharedRefusal,
      delayMs,
      refund: true,
      isRefusedForOthers: true,
    };
  }

  // A refused read is not a refusal of the change.
  const outcome = failed.sent ? error.outcome : 'not_executed';
  if (error.code === 'stopped' && !failed.sent)
    return { status: 'pending', error: error.message, delayMs: 0, refund: true };
  if (outcome === 'refused') {
    return failed.doubtsRefusal
      ? toDoubtedRefusal(error)
      : { status: 'dead', error: error.message };
  }

  if (outcome === 'unknown' && failed.rule === 'look up')
    return {
      status: 'unknown',
      error: `${error.message}; being looked up`,
      delayMs: pauses.firstLookUp.firstMs,
      written: true,
    };
  if (outcome === 'unknown' && failed.rule === 'ask operator')
    return {
      status: 'unknown',
      error: `${error.message}. ${operatorChoices}`,
      delayMs: null,
      written: true,
    };

  const written = outcome === 'unknown';
  const giveUpReason = findGiveUpReason(failed, policy);
  if (giveUpReason !== null)
    return { status: 'dead', error: `${error.message}; given up ${giveUpReason}`, written };

  // If only reads failed, wait longer: they fail for all rows in the same way.
  const step = failed.sent ? failed.attempts : failed.attempts + readsFailedStep;
  const delayMs = toPauseMs(pauses.push, step, random, error.retryAfterMs);

  return { status: 'pending', error: error.message, delayMs, refund: false, written };
}

/** Makes the verdict of a refusal that counts only after a look-up. */
function toDoubtedRefusal({ message, status }: WarehouseError): Verdict {
  const refusedAs = status === 409 ? 'taken' : 'perhaps taken';
  return { status: 'unknown', error: message, delayMs: 0, refusal: message, refusedAs };
}

/** The advice to an operator on a row that only a person can decide. */
export const operatorChoices =
  'It may have been carried out, and the service cannot be asked. ' +
  'Check there, then mark it as done if it was carried out, or retry it to send it again';

/** The advice to an operator on a row that may be sent again without harm. */
export const resendChoices =
  'It may have been carried out. ' +
  'Retry it to send it again, which does no harm, or mark it as done';

/**
 * Returns the reason to give a row up: too many attempts, or too old. Returns null if it should be
 * tried again.
 */
function findGiveUpReason(
  { attempts, ageMs }: Pick<FailedAttempt, 'attempts' | 'ageMs'>,
  policy: PushPolicy,
): string | null {
  if (attempts >= policy.maxAttempts) return `after ${attempts} attempts (PUSH_MAX_ATTEMPTS)`;
  // The first attempt may come late: after a dead row of its lane, or because the daemon was off.
  return attempts > 1 && ageMs >= policy.maxAgeMs
    ? `after ${Math.round(ageMs / hourMs)} hours (PUSH_MAX_AGE)`
    : null;
}

/**
 * Returns the reason of a refusal that concerns more than this row, such as refused credentials.
 * The attempt does not count then. Returns null if there is none.
 */
function findSharedRefusal(failed: FailedAttempt): string | null {
  const { error } = failed;
  if (error.code === 'credentials_refused' || error.status === 401 || error.status === 429)
    return error.message;
  return isWrongPath(failed) ? describeWrongKind(error) : null;
}

const describeWrongKind = (error: WarehouseError) =>
  describeWrongPath(error, 'Rows of this kind are');

/**
 * Returns true if the answer may mean that the assumed path of an operation that never succeeded is
 * wrong.
 */
function isWrongPath({ error, sent, documented, notFoundMeansRoute }: FailedAttempt): boolean {
  return !documented && sent && mayBeWrongPath(error, !notFoundMeansRoute);
}

/** Returns the evidence of a failed attempt about its client, or about all rows of its kind. */
export function readEvidence(failed: FailedAttempt): ScopedEvidence[] {
  const { error } = failed;
  const failure = toFailure(error, error.message);
  // A row that failed before is not new evidence about other rows.
  const isNew = failed.attempts <= 1 && failed.refusedForOthers === 0;
  if (error.code === 'credentials_refused')
    return [{ of: 'client', evidence: { seen: 'credentials_refused', failure } }];
  if (isWrongPath(failed))
    return [
      {
        of: 'kind',
        evidence: { seen: 'wrong_path', failure: toFailure(error, describeWrongKind(error)) },
      },
    ];
  if (error.code === 'token_refused')
    return [{ of: 'kind', evidence: { seen: 'failure', failure, isNew } }];

  const wait = readWaitEvidence(error);
  if (wait.length > 0)
    return error.retryAfterMs !== undefined || failed.refusedForOthers < maxRefusalsAsEvidence
      ? wait
      : [];

  return readAnswerEvidence(failed, isNew);
}

function readAnswerEvidence({ error, sent }: FailedAttempt, isNew: boolean): ScopedEvidence[] {
  if (error.status === 401 || error.status === 425) return [];
  if (!isServiceAnswer(error))
    return [
      { of: 'client', evidence: 'ask', failure: toFailure(error, error.message), row: { isNew } },
    ];
  return sent ? [{ of: 'kind', evidence: { seen: 'success' } }] : [];
}

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
): Verdict {
  const { refusal, sinceWrittenMs } = row;
  const again = (delayMs: number, counts = false): Verdict => ({
    status: 'unknown',
    error: why,
    delayMs,
    counts,
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
function confirmAbsence(row: LookedUpRow, policy: PushPolicy): Verdict {
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

  return { status: 'pending', error, delayMs: 0, refund: false, counts: true };
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
export const leaveToOperator = (why: string): Verdict => ({
  status: 'unknown',
  error: `${why}. ${operatorChoices}`,
  delayMs: null,
});

/** Number of lost workers after which a row becomes dead: its payload may have crashed them. */
const maxLosses = 5;
/** Returns the words of a row that is given up. */
const describeGivenUp = ({ cancelProblem }: Pick<LostClaim, 'cancelProblem'>) =>
  `its worker was lost ${maxLosses} times in a row, perhaps because of this payload. ` +
  (cancelProblem === null
    ? 'Look into the logs of the workers, then replace the payload or cancel the row'
    : `Look into the logs of the workers. The row cannot be cancelled: ${cancelProblem}`);

/** A claim whose worker does not renew it any more. */
export interface LostClaim {
  /** True if the request may have been written. */
  readonly isSent: boolean;
  /** Number of workers that were lost before, since the last attempt that ended. */
  readonly losses: number;
  readonly lastError: string | null;
  /** Why the row must not be cancelled, and what to do instead; null: it may be. */
  readonly cancelProblem: string | null;
}

/**
 * Decides what becomes of a row whose worker was lost. A row that was certainly not sent is sent
 * again. Otherwise the rule of its kind decides. A row that lost five workers in a row is dead,
 * unless a look-up finds that it was carried out.
 * @param rule rule of its kind; it does not matter for a row that was not sent
 * @param random a number in [0, 1), for the jitter
 */
export function judgeLost(
  { isSent, losses, lastError, cancelProblem }: LostClaim,
  rule: UnknownRule,
  random: number,
): Verdict {
  const isLast = losses >= maxLosses - 1;
  const givenUp = describeGivenUp({ cancelProblem });
  const lost = 'its worker was lost while sending';

  if (isSent && rule === 'ask operator')
    return { status: 'unknown', delayMs: null, error: `${lost}. ${operatorChoices}` };

  if (isSent && rule === 'look up') {
    const refusal = isLast ? { refusal: givenUp } : {};
    return { status: 'unknown', delayMs: 0, error: `${lost}; being looked up`, ...refusal };
  }

  if (isLast) return { status: 'dead', delayMs: null, error: givenUp };

  if (isSent) return { status: 'pending', delayMs: 0, error: `${lost}; sent again` };

  // Rows that were claimed together are spread over time, so that only the row at fault is lost
  // again.
  const delayMs = toPauseMs(pauses.takeover, losses, random);
  return { status: 'pending', delayMs, error: lastError };
}
