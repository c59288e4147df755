/**
 * Decides from the outcomes of sent rows whether further rows of a client, or of one kind, may be sent. These functions
 * are pure; sync.push_holds keeps the state for all workers (src/erp/outbox/holds.ts). docs/outbox.md draws the states.
 *
 * Invariant: a failure holds no more than it can concern. A kind is held if several distinct rows of it failed and none
 * succeeded. The client is held only if status/get fails, its credentials are refused, or the service asks to wait.
 * After a hold, one row is sent. Each success allows one more row at the same time.
 */

import { growPauseMs, pauses } from '../backoff.ts';

/** The reason why rows are held, or why only a few are sent at the same time. */
export type HoldCode = 'breaker_open' | 'credentials_refused' | 'retry_after' | 'kind_failing' | 'kind_parked';

/** The health of a client, or of one of its kinds, if rows failed or are held. Without it, all rows may be sent. */
export interface Health {
  readonly code: HoldCode;
  /** The last failure, in words. */
  readonly reason: string;
  /** Number of failures since the last success: distinct rows of a kind, or questions to status/get for a client. */
  readonly failures: number;
  /** Maximum number of rows that all workers together may send at the same time; null: no limit but their slots. */
  readonly sendWindow: number | null;
}

/** An observation about a client, or about one of its kinds. */
export type Evidence =
  /**
   * A row succeeded, a look-up found it, or the service refused it with a reason: the service works for rows like it.
   */
  | { readonly seen: 'success' }
  /** A row failed. `isNew`: for the first time. A repeated failure of one row is not evidence about other rows. */
  | { readonly seen: 'failure'; readonly reason: string; readonly isNew: boolean }
  /** The service does not have the route: the assumed path of the kind is wrong. */
  | { readonly seen: 'no route'; readonly reason: string }
  /** The service did not answer status/get. */
  | { readonly seen: 'no answer'; readonly reason: string }
  | { readonly seen: 'credentials refused'; readonly reason: string }
  | { readonly seen: 'asked to wait'; readonly reason: string; readonly ms: number }
  /** The question of the probe was answered: the hold is over. */
  | { readonly seen: 'answered' };

/** The consequence of evidence. */
export interface Judgement {
  /** null: all rows may be sent, and there is nothing to remember. */
  readonly health: Health | null;
  /** Milliseconds of the hold from now on. 0: the hold ends. null: the hold does not change. */
  readonly holdMs: number | null;
}

/** A kind is held if this many distinct rows of it have failed without a success in between. */
const minFailuresToHold = 5;
/** Send window after a Retry-After. It is larger than 1, because the service did answer. */
const windowAfterWait = 4;
/** If the send window reaches this size, the limit ends. */
const fullWindow = 16;

/** Returns true for a hold that only a question to the service ends, not a row. */
export const isEndedByQuestion = (code: HoldCode): boolean => code === 'breaker_open' || code === 'credentials_refused';

/**
 * Decides what follows from evidence about a client or a kind.
 * @param isHeld true if its rows are held now
 * @param byProber true if this worker made the probe
 */
export function judgeHealth(
  former: Health | null,
  evidence: Evidence,
  { isHeld, byProber }: { readonly isHeld: boolean; readonly byProber: boolean },
): Judgement {
  const unchanged: Judgement = { health: former, holdMs: null };
  switch (evidence.seen) {
    case 'success':
      return judgeSuccess(former, isHeld);
    case 'failure':
      // The row was sent before the hold began, so its failure is not new evidence.
      return isHeld ? unchanged : judgeFailedRow(former, evidence);
    case 'no route':
      return makeHold(pauses.wrongPath.firstMs, 'kind_parked', evidence.reason, former);
    case 'answered':
      return former === null ? unchanged : { health: { ...former, failures: 0, sendWindow: 1 }, holdMs: 0 };
    default:
  }
  // The request was sent before the hold began, so it is not new evidence. The hold stays as it is.
  if (former !== null && isHeld && isEndedByQuestion(former.code) && !byProber) return unchanged;
  // An outage must not shorten the wait that the service asked for.
  if (former !== null && isHeld && former.code === 'retry_after' && evidence.seen === 'no answer') return unchanged;
  if (evidence.seen === 'credentials refused')
    return makeHold(pauses.refusedCredentials.firstMs, 'credentials_refused', evidence.reason, former);
  if (evidence.seen === 'asked to wait')
    return makeHold(evidence.ms, 'retry_after', evidence.reason, former, windowAfterWait);
  const times = former?.code === 'breaker_open' ? former.failures : 0;
  const ms = growPauseMs(pauses.statusQuestion, times + 1);
  return makeHold(ms, 'breaker_open', evidence.reason, { failures: times });
}

/** Decides what follows from a success: the send window grows by one. */
function judgeSuccess(former: Health | null, isHeld: boolean): Judgement {
  if (former === null || former.sendWindow === null) return { health: null, holdMs: 0 };
  // The row was sent before the hold began. Its success does not shorten the hold.
  if (isHeld && (isEndedByQuestion(former.code) || former.code === 'retry_after'))
    return { health: former, holdMs: null };
  const sendWindow = former.sendWindow + 1;
  if (sendWindow >= fullWindow) return { health: null, holdMs: 0 };
  return { health: { ...former, failures: 0, sendWindow }, holdMs: 0 };
}

function judgeFailedRow(
  former: Health | null,
  { reason, isNew }: { readonly reason: string; readonly isNew: boolean },
): Judgement {
  const sendWindow = former?.sendWindow ?? null;
  // If only one row is sent at a time, any failure counts: there was no other row to send.
  if (!isNew && sendWindow !== 1) return { health: former, holdMs: null };
  const failures = (former?.failures ?? 0) + 1;
  const code = former?.code ?? 'kind_failing';
  if (sendWindow === null && failures < minFailuresToHold)
    return { health: { code, reason, failures, sendWindow }, holdMs: null };
  if (sendWindow !== null && sendWindow > 1)
    return { health: { code, reason, failures, sendWindow: Math.floor(sendWindow / 2) }, holdMs: null };
  const ms = growPauseMs(pauses.failingKind, failures + 1);
  return makeHold(ms, 'kind_failing', reason, former);
}

function makeHold(
  ms: number,
  code: HoldCode,
  reason: string,
  former: Pick<Health, 'failures'> | null,
  sendWindow = 1,
): Judgement {
  return { health: { code, reason, failures: (former?.failures ?? 0) + 1, sendWindow }, holdMs: ms };
}
