/** What the answer of a receiver means for a delivery, and for the receiver. */

import { type Backoff, longestWaitMs, pauses, toPauseMs } from './backoff.ts';

/**
 * The result of a post. `refused`: the receiver is there, and does not take this delivery. `away`:
 * it does not answer, fails, or asks to wait, which says nothing about the delivery.
 */
export type Answer =
  | { readonly kind: 'taken' }
  | {
      readonly kind: 'refused' | 'away';
      /** Stable code, such as `http_404` or `timeout`. */
      readonly code: string;
      /** The reason in words. */
      readonly error: string;
      readonly retryAfterMs?: number;
    };

/** Answers below 500 that say that the receiver is busy. */
const busyStatuses: ReadonlySet<number> = new Set([408, 425, 429]);

/**
 * Returns what an answer with this status means. A redirect concerns the address, and so every
 * delivery.
 */
export function judgeStatus(status: number, retryAfterMs?: number): Answer {
  if (status >= 200 && status < 300) return { kind: 'taken' };
  const isRefusal = status >= 400 && status < 500 && !busyStatuses.has(status);
  const redirected = status >= 300 && status < 400 ? '; redirects are not followed' : '';

  return {
    kind: isRefusal ? 'refused' : 'away',
    code: `http_${status}`,
    error: `the receiver answered ${status}${redirected}`,
    ...(isRefusal || retryAfterMs === undefined ? {} : { retryAfterMs }),
  };
}

/** An attempt to post a delivery. */
export interface DeliveryAttempt {
  readonly answer: Answer;
  /** Number of attempts so far, with this one. */
  readonly tries: number;
  /** Age of the delivery. */
  readonly ageMs: number;
  /** A number in [0, 1), for the jitter of pauses. */
  readonly random: number;
}

/** When a delivery is given up: if it is older than this, and was tried this often. */
export interface GiveUp {
  readonly maxAgeMs: number;
  readonly minTries: number;
}

/** The state of a delivery after an attempt. */
export type DeliveryEnd =
  | { readonly status: 'delivered' | 'dead' }
  | { readonly status: 'waiting'; readonly delayMs: number };

/** Judges a delivery after an attempt. Its lane waits for it; no other does. */
export function judgeDelivery(
  { answer, tries, ageMs, random }: DeliveryAttempt,
  { maxAgeMs, minTries }: GiveUp,
  pause: Backoff = pauses.delivery,
): DeliveryEnd {
  if (answer.kind === 'taken') return { status: 'delivered' };
  if (ageMs > maxAgeMs && tries >= minTries) return { status: 'dead' };
  return { status: 'waiting', delayMs: toPauseMs(pause, tries, random, answer.retryAfterMs) };
}

/** Most deliveries that a worker posts to a receiver at the same time. */
export const maxPlaces = 8;

/** Whether a receiver answers. */
export interface ReceiverState {
  readonly isAway: boolean;
  /** Number of posts in vain since it went away. */
  readonly failures: number;
  readonly places: number;
}

/** The state of a receiver after an attempt, and the time to the next one if it is away. */
export interface ReceiverEnd extends ReceiverState {
  readonly delayMs: number;
}

/**
 * Judges a receiver after an attempt. Any answer about a delivery shows that it is there: then 1,
 * 2, 4 and 8 deliveries are posted at the same time. A failure counts only if the delivery never
 * failed before, or if the receiver is away already: one that always fails says nothing about the
 * receiver. A 429 or a Retry-After always counts.
 */
export function judgeReceiver(
  state: ReceiverState,
  { answer, tries, random }: DeliveryAttempt,
  pause: Backoff = pauses.receiver,
): ReceiverEnd {
  if (answer.kind !== 'away') {
    const places = state.isAway ? 1 : Math.min(maxPlaces, state.places * 2);
    return { isAway: false, failures: 0, places, delayMs: 0 };
  }

  const isAsked = answer.code === 'http_429' || answer.retryAfterMs !== undefined;
  if (!state.isAway && tries > 1 && !isAsked) return { ...state, delayMs: 0 };

  const failures = state.failures + 1;
  const waitMs = Math.min(longestWaitMs, answer.retryAfterMs ?? 0);

  return {
    isAway: true,
    failures,
    places: 1,
    delayMs: waitMs + toPauseMs(pause, failures, random),
  };
}

/** A delivery that is due and first in its lane. */
export interface DueDelivery {
  readonly id: string;
  readonly turn: string;
  /** True if it was never tried. */
  readonly isNew: boolean;
  /** Its place among those of its turn and newness, from 1. */
  readonly place: number;
}

/**
 * Chooses which due deliveries are posted. Clients take turns, beginning after the one that was
 * served last. A quarter of the places is for those that were tried before, so that neither new
 * ones nor these wait for the others.
 */
export function chooseDue(
  due: readonly DueDelivery[],
  places: number,
  lastTurn: string,
): DueDelivery[] {
  const inTurn = due.toSorted(
    (one, other) =>
      one.place - other.place ||
      Number(one.turn <= lastTurn) - Number(other.turn <= lastTurn) ||
      (one.turn < other.turn ? -1 : 1),
  );

  const fresh = inTurn.filter(({ isNew }) => isNew);
  const again = inTurn.filter(({ isNew }) => !isNew);

  const forAgain = Math.min(again.length, Math.max(Math.floor(places / 4), places - fresh.length));
  return [...fresh.slice(0, places - forAgain), ...again.slice(0, forAgain)];
}
