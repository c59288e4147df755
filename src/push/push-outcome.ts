import { pauses, toPauseMs } from '../core/backoff.ts';
import { toFailure, type WarehouseError } from '../core/errors.ts';
import { hourMs } from '../core/time.ts';
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
export type RefusedAs = 'taken' | 'perhaps taken';

/** The outcome of an attempt or a look-up, to be settled. */
export type Verdict = (
  | { readonly status: 'dead'; readonly error: string }
  /**
   * `countsAsAttempt`: the attempt counts. `isRefusedForOthers`: it was refused for a reason that
   * does not lie in the row.
   */
  | {
      readonly status: 'pending';
      readonly error: string;
      readonly delayMs: number;
      readonly countsAsAttempt: boolean;
      readonly isRefusedForOthers?: boolean;
    }
  /**
   * `delayMs`: time until the look-up; null if an operator decides. `refusal`: the error that the
   * row dies with if the look-up does not find it. `refusedAs`: whether it says that the service
   * already has what the row asks for.
   */
  | {
      readonly status: 'unknown';
      readonly error: string;
      readonly delayMs: number | null;
      readonly refusal?: string;
      readonly refusedAs?: RefusedAs;
    }
) & {
  /** True if the service may have carried this attempt out. */
  readonly written?: boolean;
};

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
      countsAsAttempt: false,
      isRefusedForOthers: true,
    };
  }

  // A refused read is not a refusal of the change.
  const outcome = failed.sent ? error.outcome : 'not_executed';
  if (error.code === 'stopped' && !failed.sent)
    return { status: 'pending', error: error.message, delayMs: 0, countsAsAttempt: false };
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

  return { status: 'pending', error: error.message, delayMs, countsAsAttempt: true, written };
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

/**
 * Returns the reason to give a row up: too many attempts, or too old. Returns null if it should be
 * tried again.
 */
export function findGiveUpReason(
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
    return [{ of: 'client', evidence: { seen: 'credentials refused', failure } }];
  if (isWrongPath(failed))
    return [
      {
        of: 'kind',
        evidence: { seen: 'wrong path', failure: toFailure(error, describeWrongKind(error)) },
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
