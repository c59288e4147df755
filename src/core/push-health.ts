/**
 * Whether rows of a client, or of one kind of a client, may be sent, judged from what came of those that were. Pure: the
 * truth is in sync.push_holds, shared by all workers (src/erp/outbox/holds.ts). docs/outbox.md draws the states.
 *
 * What always holds: a failure holds the smallest thing that it can concern. A kind is held when several distinct rows of
 * it failed and none got through. The client is held only where status/get fails, its credentials are refused, or the
 * service asks to wait. After a hold one row is sent; each one that gets through allows one more at the same time.
 */

/** Why rows are held, or sent a few at a time. */
export type HoldCode = 'breaker_open' | 'credentials_refused' | 'retry_after' | 'kind_failing' | 'kind_parked';

/** The health of a client, or of one of its kinds, where rows failed or are held. Without one, all rows may be sent. */
export interface Health {
  readonly code: HoldCode;
  /** What was last seen, in words. */
  readonly reason: string;
  /** Distinct rows (of a client: questions to status/get) that failed since one got through. */
  readonly failures: number;
  /** How many rows all workers together may have under way; null: as many as they have slots. */
  readonly sendWindow: number | null;
}

/** What was seen of a client, or of one of its kinds. */
export type Evidence =
  /** A row got through, was found there by a look-up, or was refused with a reason: the service deals with such rows. */
  | { readonly seen: 'success' }
  /** A row failed. `isNew`: for the first time; that a row fails again says nothing of the others. */
  | { readonly seen: 'failure'; readonly reason: string; readonly isNew: boolean }
  /** The service has no such route: the assumed path of the kind is wrong. */
  | { readonly seen: 'no route'; readonly reason: string }
  /** status/get got no answer of the service. */
  | { readonly seen: 'no answer'; readonly reason: string }
  | { readonly seen: 'credentials refused'; readonly reason: string }
  | { readonly seen: 'asked to wait'; readonly reason: string; readonly ms: number }
  /** The question that was to show whether a hold is over was answered. */
  | { readonly seen: 'let in' };

/** What follows from evidence. */
export interface Judgement {
  /** null: open, and nothing to remember. */
  readonly health: Health | null;
  /** Milliseconds for which it is held from now on. 0: the hold ends. null: nothing changes. */
  readonly holdMs: number | null;
}

/** A kind is held when this many distinct rows of it have failed and none has got through since the first of them. */
const failuresThatHold = 5;
/** The pause before a held kind is tried again: this, times the growth for each failure, up to the cap. */
const kindPauseMs = 250;
const kindPauseGrowth = 1.15;
/** status/get is asked again after this, then after twice as long each time, up to the cap. */
const clientPauseMs = 5_000;
const pauseCapMs = 60_000;
/** How long refused credentials and a wrong path are left alone (contracts, Outcome rules). */
const parkedMs = 15 * 60_000;
/** Rows that may be sent at the same time after a Retry-After: the service answers, so it need not be tried with one. */
const windowAfterWait = 4;
/** With a window of this size a client or kind counts as open again. */
const fullWindow = 16;

/** The holds that only a question to the service ends. */
export const isProbed = (code: HoldCode): boolean => code === 'breaker_open' || code === 'credentials_refused';

/**
 * What follows for a client, or for a kind, from what was seen.
 * @param isHeld whether nothing of it is sent at present
 * @param byProber whether it was this worker's turn to find out whether the hold is over
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
      // What was under way when the hold began says nothing new.
      return isHeld ? unchanged : judgeFailedRow(former, evidence);
    case 'no route':
      return heldFor(parkedMs, 'kind_parked', evidence.reason, former);
    case 'let in':
      return former === null ? unchanged : { health: { ...former, failures: 0, sendWindow: 1 }, holdMs: 0 };
    default:
  }
  // What was under way when the hold began says nothing new. That somebody else found out something worse stays.
  if (former !== null && isHeld && isProbed(former.code) && !byProber) return unchanged;
  // The longer of both counts: what the service asked for is not cut short by an outage meanwhile.
  if (former !== null && isHeld && former.code === 'retry_after' && evidence.seen === 'no answer') return unchanged;
  if (evidence.seen === 'credentials refused') return heldFor(parkedMs, 'credentials_refused', evidence.reason, former);
  if (evidence.seen === 'asked to wait')
    return heldFor(evidence.ms, 'retry_after', evidence.reason, former, windowAfterWait);
  const times = former?.code === 'breaker_open' ? former.failures : 0;
  const ms = Math.min(pauseCapMs, clientPauseMs * 2 ** Math.min(times, 10));
  return heldFor(ms, 'breaker_open', evidence.reason, { failures: times });
}

/** One row got through: of what is sent a few at a time, one more may be under way. */
function judgeSuccess(former: Health | null, isHeld: boolean): Judgement {
  if (former === null || former.sendWindow === null) return { health: null, holdMs: 0 };
  // The answer to a row that was sent before: it does not shorten what the service, or its door, said since.
  if (isHeld && (isProbed(former.code) || former.code === 'retry_after')) return { health: former, holdMs: null };
  const sendWindow = former.sendWindow + 1;
  if (sendWindow >= fullWindow) return { health: null, holdMs: 0 };
  return { health: { ...former, failures: 0, sendWindow }, holdMs: 0 };
}

function judgeFailedRow(
  former: Health | null,
  { reason, isNew }: { readonly reason: string; readonly isNew: boolean },
): Judgement {
  const sendWindow = former?.sendWindow ?? null;
  // Of a kind of which one row at a time is sent, any failure says that it is not over: there was no other row to send.
  if (!isNew && sendWindow !== 1) return { health: former, holdMs: null };
  const failures = (former?.failures ?? 0) + 1;
  const code = former?.code ?? 'kind_failing';
  if (sendWindow === null && failures < failuresThatHold)
    return { health: { code, reason, failures, sendWindow }, holdMs: null };
  if (sendWindow !== null && sendWindow > 1)
    return { health: { code, reason, failures, sendWindow: Math.floor(sendWindow / 2) }, holdMs: null };
  const ms = Math.min(pauseCapMs, kindPauseMs * kindPauseGrowth ** Math.min(failures, 100));
  return heldFor(ms, 'kind_failing', reason, former);
}

function heldFor(
  ms: number,
  code: HoldCode,
  reason: string,
  former: Pick<Health, 'failures'> | null,
  sendWindow = 1,
): Judgement {
  return { health: { code, reason, failures: (former?.failures ?? 0) + 1, sendWindow }, holdMs: ms };
}
