/**
 * Decides from the outcomes of sent rows whether further rows of a client, or of one kind, may be
 * sent. These functions are pure; sync.push_holds keeps the state for all workers
 * (src/service/sql/holds.ts). docs/architecture.md draws the states.
 *
 * Invariant: a failure holds no more than it can concern. A kind is held if several distinct rows
 * of it failed and none succeeded. The client is held only if status/get fails, its credentials are
 * refused, or the service asks to wait or to send less. After a hold, one row is sent. Each success
 * allows one more row at the same time. Holds for failures are short: once the service works again,
 * all rows are sent within 15 s.
 */

import { growPauseMs, pauses } from '../../core/backoff.ts';
import type { Failure } from '../../core/errors.ts';

/** The reason why rows are held, or why only a few are sent at the same time. */
export type HoldCode =
  | 'breaker_open'
  | 'credentials_refused'
  | 'retry_after'
  | 'too_fast'
  | 'kind_failing'
  | 'kind_parked';

/**
 * The health of a client, or of one of its kinds, if rows failed or are held. Without it, all rows
 * may be sent.
 */
export interface Health {
  readonly code: HoldCode;
  /** The last failure. */
  readonly cause: Failure;
  /**
   * Number of failures since the last success: distinct rows of a kind, or questions to status/get
   * for a client.
   */
  readonly failures: number;
  /**
   * Number of rows that all workers together send at the same time. Null for a kind: no limit but
   * their slots. Null for a client: no row, until the service has answered a question.
   */
  readonly sendWindow: number | null;
}

/** An observation about a client, or about one of its kinds. */
export type Evidence =
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
  /** The service does not have the route: the assumed path of the kind is wrong. */
  | { readonly seen: 'no route'; readonly failure: Failure }
  /** The service did not answer status/get. */
  | { readonly seen: 'no answer'; readonly failure: Failure }
  | { readonly seen: 'credentials refused'; readonly failure: Failure }
  | { readonly seen: 'asked to wait'; readonly failure: Failure; readonly ms: number }
  /**
   * The service refused a request because requests come too fast, and did not say how long to wait.
   */
  | { readonly seen: 'too fast'; readonly failure: Failure }
  /** The question that ends a hold was answered. */
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
/**
 * Send window after a 429 or a Retry-After. It is larger than 1, because the service did answer.
 */
const windowAfterWait = 4;
/** If the send window reaches this size, the limit ends. */
const fullWindow = 16;

/**
 * Decides what follows from evidence about a client or a kind.
 * @param isHeld true if its rows are held now
 * @param isAnswer true if the evidence is the result of the question that ends a hold
 */
export function judgeHealth(
  former: Health | null,
  evidence: Evidence,
  { isHeld, isAnswer = false }: { readonly isHeld: boolean; readonly isAnswer?: boolean },
): Judgement {
  // The request was sent before the hold began, so it is not new evidence. Only a Retry-After makes
  // a wait longer.
  if (former !== null && isHeld && !isAnswer && isKept(former, evidence)) {
    // A 429 comes sooner than the answers to rows that were sent before it. These show that the
    // next hold may be short.
    const failures =
      former.code === 'too_fast' && evidence.seen === 'success' ? 0 : former.failures;
    return { health: { ...former, failures }, holdMs: null };
  }
  switch (evidence.seen) {
    case 'success':
      return judgeSuccess(former);
    case 'failure':
      return judgeFailedRow(former, evidence);
    case 'no route':
      return makeHold('kind_parked', evidence.failure, pauses.wrongPath.firstMs);
    case 'answered':
      return { health: former && { ...former, failures: 0, sendWindow: 1 }, holdMs: 0 };
    case 'credentials refused':
      return makeHold('credentials_refused', evidence.failure, pauses.refusedCredentials.firstMs, {
        sendWindow: null,
      });
    case 'asked to wait':
      return makeHold('retry_after', evidence.failure, evidence.ms, {
        sendWindow: windowAfterWait,
      });
    case 'too fast': {
      const failures = (former?.code === 'too_fast' ? former.failures : 0) + 1;
      const ms = growPauseMs(pauses.tooFast, failures);
      return makeHold('too_fast', evidence.failure, ms, { failures, sendWindow: windowAfterWait });
    }
    case 'no answer':
      return makeHold('breaker_open', evidence.failure, pauses.statusQuestion.firstMs, {
        sendWindow: null,
      });
  }
}

/** Returns true if evidence does not change a hold. */
function isKept({ code }: Health, { seen }: Evidence): boolean {
  if (seen === 'failure' || code === 'breaker_open' || code === 'credentials_refused') return true;
  return (code === 'retry_after' || code === 'too_fast') && seen !== 'asked to wait';
}

/** Decides what follows from a success: the send window grows by one. */
function judgeSuccess(former: Health | null): Judgement {
  if (former === null || former.sendWindow === null) return { health: null, holdMs: 0 };
  const sendWindow = former.sendWindow + 1;
  if (sendWindow >= fullWindow) return { health: null, holdMs: 0 };
  return { health: { ...former, failures: 0, sendWindow }, holdMs: 0 };
}

function judgeFailedRow(
  former: Health | null,
  { failure, isNew }: { readonly failure: Failure; readonly isNew: boolean },
): Judgement {
  const sendWindow = former?.sendWindow ?? null;
  // If only one row is sent at a time, any failure counts: there was no other row to send.
  if (!isNew && sendWindow !== 1) return { health: former, holdMs: null };
  const failures = (former?.failures ?? 0) + 1;
  const isHolding = sendWindow === null ? failures >= minFailuresToHold : sendWindow === 1;
  if (isHolding)
    return makeHold('kind_failing', failure, growPauseMs(pauses.failingKind, failures + 1), {
      failures,
    });
  const code = former?.code ?? 'kind_failing';
  return {
    health: {
      code,
      cause: failure,
      failures,
      sendWindow: sendWindow && Math.floor(sendWindow / 2),
    },
    holdMs: null,
  };
}

function makeHold(
  code: HoldCode,
  cause: Failure,
  holdMs: number,
  { failures = 1, sendWindow = 1 }: Partial<Pick<Health, 'failures' | 'sendWindow'>> = {},
): Judgement {
  return { health: { code, cause, failures, sendWindow }, holdMs };
}
