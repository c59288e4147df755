/**
 * Decides from evidence whether and how much a client's service is asked. Pulls and pushes give
 * evidence, and both obey the result. These functions are pure; sync.service_health keeps the state
 * (src/service/sql/service-health.ts).
 *
 * A health has a scope: the client, one kind of the outbox, or one job. No row: everything is open.
 *
 * | scope  | code                | begins with                 | nothing is asked for    | then   |
 * | ------ | ------------------- | --------------------------- | ----------------------- | ------ |
 * | client | no_answer           | status/get fails            | 5 s, then a question    | 1 row  |
 * | client | credentials_refused | a refused token             | 15 min, then a question | 1 row  |
 * | client | asked_to_wait       | Retry-After                 | as asked, 15 min max.   | 4 rows |
 * | client | too_fast            | 429 without Retry-After     | 1 s to 10 s (rows only) | 4 rows |
 * | kind   | kind_failing        | 5 distinct rows, no success | 0.5 s to 10 s           | 1 row  |
 * | kind   | wrong_path          | 403, 404, 405; never worked | 15 min                  | 1 row  |
 * | job    | wrong_path          | the same, of its operation  | 15 min                  | 1 run  |
 *
 * `then` is the send window after the hold: the number of rows that are sent at the same time. Each
 * success makes it larger by one, so it doubles with each round; from 16 rows on there is no limit.
 * A question is a request to status/get, or for a token: it is answered, or the hold begins again.
 *
 * Rules:
 * - A failure holds no more than it can concern. A row that failed before says nothing new.
 * - `no_answer` is what one worker has seen, and holds that worker alone: others find out
 *   themselves, or go on if only the path from that worker is broken.
 * - Evidence from a request that was sent before a hold began does not change the hold. Only a
 *   Retry-After makes a wait longer.
 * - Health that is older than its longest pause is void: a restored backup holds nobody. So is
 *   health that was stored before the clock was set back.
 */

import {
  type Backoff,
  growPauseMs,
  longestWaitMs,
  makeFixedPause,
  pauses,
} from '../../core/backoff.ts';
import type { Failure } from '../../core/errors.ts';
import { hourMs, minuteMs } from '../../core/time.ts';

/** The reason why nothing, or only a little, is asked of the service. */
export type HealthCode =
  | 'no_answer'
  | 'credentials_refused'
  | 'asked_to_wait'
  | 'too_fast'
  | 'kind_failing'
  | 'wrong_path';

/** The health of a client, a kind or a job, if something failed. Without it, all may be asked. */
export interface Health {
  readonly code: HealthCode;
  /** The last failure. */
  readonly cause: Failure;
  /** Number of failures since the last success. */
  readonly failures: number;
  /**
   * Number of rows that are sent at the same time. 0: none, until a question is answered. Null: no
   * limit but the slots of the workers.
   */
  readonly sendWindow: number | null;
  /** When the first of these failures came. */
  readonly since: Date;
  /** When the hold ends, or when the service is asked whether it is over. */
  readonly nextAt: Date;
  /** When this health says nothing any more. */
  readonly voidAt: Date;
}

/** An observation about a client, a kind or a job. */
export type Evidence = Observation & {
  /** True if the evidence is the result of the question that ends a hold. */
  readonly isTrial?: boolean;
};

type Observation =
  /**
   * A row succeeded, a look-up found it, or the service refused it with a reason: the service works
   * for rows like it.
   */
  | { readonly seen: 'success' }
  /**
   * A row failed. `isNew`: for the first time. A repeated failure of one row is not evidence about
   * other rows.
   */
  | { readonly seen: 'failure'; readonly failure: Failure; readonly isNew: boolean }
  /** The service asked to wait. */
  | { readonly seen: 'asked_to_wait'; readonly failure: Failure; readonly ms: number }
  /**
   * A hold begins at once, with this code: the service does not have the route of the kind or job,
   * it did not answer status/get, it refused the credentials, or requests come too fast for it, and
   * it did not say how long to wait.
   */
  | {
      readonly seen: 'wrong_path' | 'no_answer' | 'credentials_refused' | 'too_fast';
      readonly failure: Failure;
    }
  /**
   * The question that ends a hold was answered. `signedIn` is false if only status/get was asked,
   * which needs no credentials.
   */
  | { readonly seen: 'answered'; readonly signedIn: boolean };

/**
 * How long holds last, and the send window after them: 4 if the service did answer. Health is void
 * after the longest pause, and the time of a trial.
 */
const holds: Readonly<
  Record<HealthCode, { readonly pause: Backoff; readonly sendWindow: 0 | 1 | 4 }>
> = {
  no_answer: { pause: pauses.silentService, sendWindow: 0 },
  credentials_refused: { pause: pauses.refusedCredentials, sendWindow: 0 },
  asked_to_wait: { pause: makeFixedPause(longestWaitMs), sendWindow: 4 },
  too_fast: { pause: pauses.tooFast, sendWindow: 4 },
  kind_failing: { pause: pauses.failingKind, sendWindow: 1 },
  wrong_path: { pause: pauses.wrongPath, sendWindow: 1 },
};

/** Maximum milliseconds for which health is valid. If more are left, the clock was set back. */
export const longestValidMs = hourMs;

/** Milliseconds that a trial has for its answer, before another one is made. */
export const trialMs = minuteMs;

/**
 * A kind is held if this many distinct rows of it have failed without a success in between. A run
 * ends if as many of its requests have.
 */
export const minFailuresToHold = 5;
/** If the send window reaches this size, the limit ends. */
const fullWindow = 16;

/** Returns true if the hold of a health ends only when a question is answered. */
export const awaitsAnswer = ({ sendWindow }: Pick<Health, 'sendWindow'>): boolean =>
  sendWindow === 0;

/**
 * Decides what follows from evidence.
 * @param former null if there is no health; void health is taken for none
 * @param now the time by the clock that stored the former health
 * @returns null if everything is open; `former` itself if nothing changes
 */
export function judgeHealth(former: Health | null, evidence: Evidence, now: Date): Health | null {
  const validMs = (former?.voidAt.getTime() ?? 0) - now.getTime();
  const health = validMs > 0 && validMs < longestValidMs ? former : null;
  const isHeld = health !== null && (awaitsAnswer(health) || health.nextAt > now);
  if (isHeld && evidence.isTrial !== true && isKept(health, evidence))
    return keepHold(health, evidence);

  const moment = { former: health, now };
  switch (evidence.seen) {
    case 'success':
      return judgeSuccess(health, now);
    case 'answered':
      return judgeAnswer(moment, evidence.signedIn);
    case 'failure':
      return judgeFailedRow(moment, evidence);
    case 'asked_to_wait':
      return judgeWait(moment, evidence);
    case 'too_fast': {
      const failures = (health?.code === 'too_fast' ? health.failures : 0) + 1;
      return makeHold(moment, { code: 'too_fast', cause: evidence.failure, failures });
    }
    default:
      return makeHold(moment, { code: evidence.seen, cause: evidence.failure });
  }
}

/**
 * Returns true if evidence does not change a hold: its request was sent before the hold began.
 */
function isKept({ code, sendWindow }: Health, { seen }: Evidence): boolean {
  if (seen === 'answered') return false;
  if (seen === 'failure' || sendWindow === 0) return true;
  return (code === 'asked_to_wait' || code === 'too_fast') && seen !== 'asked_to_wait';
}

function keepHold(health: Health, { seen }: Evidence): Health {
  // A 429 comes sooner than the answers to rows that were sent before it. These show that the next
  // hold may be short.
  const isShortened = health.code === 'too_fast' && seen === 'success' && health.failures > 0;
  return isShortened ? { ...health, failures: 0 } : health;
}

/** A success makes the send window larger by one. */
function judgeSuccess(health: Health | null, now: Date): Health | null {
  if (health === null || health.sendWindow === null) return null;
  const sendWindow = health.sendWindow + 1;
  if (sendWindow >= fullWindow) return null;
  return extend({ ...health, failures: 0, sendWindow, nextAt: now }, now);
}

/** An answered question ends the hold that waited for it. Status/get proves no credentials. */
function judgeAnswer({ former: health, now }: Moment, signedIn: boolean): Health | null {
  if (health === null || !awaitsAnswer(health)) return health;
  if (health.code === 'credentials_refused' && !signedIn) return health;
  return extend({ ...health, failures: 0, sendWindow: 1, nextAt: now }, now);
}

/** The health that evidence is judged by, and when. */
interface Moment {
  readonly former: Health | null;
  readonly now: Date;
}

function judgeFailedRow(
  moment: Moment,
  { failure, isNew }: { readonly failure: Failure; readonly isNew: boolean },
): Health | null {
  const { former, now } = moment;
  const sendWindow = former?.sendWindow ?? null;
  // If only one row is sent at a time, any failure counts: there was no other row to send.
  if (!isNew && sendWindow !== 1) return former;

  const failures = (former?.failures ?? 0) + 1;
  const isHolding = sendWindow === null ? failures >= minFailuresToHold : sendWindow === 1;
  if (isHolding)
    return makeHold(moment, {
      ...{ code: 'kind_failing', cause: failure, failures },
      ms: growPauseMs(pauses.failingKind, failures + 1),
    });

  const counted = {
    ...{ code: former?.code ?? 'kind_failing', cause: failure, failures },
    sendWindow: sendWindow && Math.floor(sendWindow / 2),
    ...{ since: former?.since ?? now, nextAt: former?.nextAt ?? now },
  };
  return extend(counted, now);
}

/** A later answer of the service can extend the wait that it asked for, never shorten it. */
function judgeWait(
  moment: Moment,
  { failure, ms }: { readonly failure: Failure; readonly ms: number },
): Health {
  const hold = makeHold(moment, { code: 'asked_to_wait', cause: failure, ms });
  const { former } = moment;
  return former !== null && former.nextAt > hold.nextAt ? { ...hold, nextAt: former.nextAt } : hold;
}

interface Hold extends Pick<Health, 'code' | 'cause'> {
  readonly failures?: number;
  /** Milliseconds that it lasts; without it, the pause of its code. */
  readonly ms?: number;
}

function makeHold(
  { former, now }: Moment,
  { code, cause, failures = 1, ms = growPauseMs(holds[code].pause, failures) }: Hold,
): Health {
  const { sendWindow } = holds[code];
  // Refused credentials have another cause than an outage, and so has an outage after rows were
  // done.
  const isOther =
    former !== null && (former.code === 'credentials_refused') !== (code === 'credentials_refused');
  const isAfterSuccess = sendWindow === 0 && (former?.sendWindow ?? 1) > 1;
  const since = former === null || isOther || isAfterSuccess ? now : former.since;

  const nextAt = new Date(now.getTime() + ms);
  return extend({ code, cause, failures, sendWindow, since, nextAt }, now);
}

/** Returns a health that is valid for the longest pause of its code, and the time of a trial. */
function extend(health: Omit<Health, 'voidAt'>, now: Date): Health {
  const validMs = holds[health.code].pause.longestMs + trialMs;
  return { ...health, voidAt: new Date(now.getTime() + validMs) };
}
