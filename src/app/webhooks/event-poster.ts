/** Makes business events from the feed, and posts them to the subscribers. */

import type { Dispatcher } from 'undici';
import type { EventSubscriber } from '../../../config/events.ts';
import { pauses, toPauseMs } from '../../core/backoff.ts';
import { repeat } from '../../core/repeat.ts';
import { dayMs } from '../../core/time.ts';
import type { Database } from '../../erp/connection/pool.ts';
import { type ClaimedEvent, claimEvents, recordRefused, recordTaken } from '../../erp/events/deliver-events.ts';
import { makeEvents, registerSubscribers, touchSubscribers } from '../../erp/events/make-events.ts';
import { errorFields, type Logger, throttleWarnings } from '../logging/logger.ts';
import { postWebhook } from './post-webhook.ts';

/** Interval in which a worker looks for changes and for due events. */
const tickMs = 1_000;
/** Maximum number of posts to a subscriber at the same time. */
const maxPosts = 8;
/** Age after which an event that the receiver does not take is given up. */
const maxAgeMs = 3 * dayMs;
/** Time beyond the timeout of a post after which another worker takes the event over. */
const leaseMarginMs = 10_000;

interface EventPosterOptions {
  readonly db: Database;
  readonly subscribers: readonly EventSubscriber[];
  readonly dispatcher: Dispatcher;
  /** Maximum milliseconds of a post. */
  readonly timeoutMs: number;
  readonly log: Logger;
}

/** A subscriber, and whether its receiver takes events at present. */
interface Receiver {
  readonly subscriber: EventSubscriber;
  /** Failures since the last post that was taken. While there are any, one event at a time is posted. */
  failures: number;
  retryAtMs: number;
}

/**
 * Makes and posts business events. Several workers share both by Postgres: each event is posted at least once, and after
 * the earlier ones of its order.
 */
export class EventPoster {
  readonly #options: EventPosterOptions;
  readonly #warn: ReturnType<typeof throttleWarnings>;
  readonly #stopping = new AbortController();
  #repeats: readonly ReturnType<typeof repeat>[] = [];

  constructor(options: EventPosterOptions) {
    this.#options = options;
    this.#warn = throttleWarnings(options.log);
  }

  /** Registers the subscribers, and begins. Each subscriber has a loop of its own, so that none waits for another. */
  async start(): Promise<void> {
    const { db, subscribers, log } = this.#options;
    for (const subscriber of await registerSubscribers(db, subscribers))
      log.warn({ event: 'subscriber_forgotten', subscriber });
    const receivers = subscribers.map((subscriber): Receiver => ({ subscriber, failures: 0, retryAtMs: 0 }));
    const loops = [() => this.#make(), ...receivers.map((receiver) => () => this.#postDue(receiver))];
    this.#repeats = loops.map((loop) => repeat(tickMs, () => this.#attempt(loop)));
  }

  /** Stops. Posts under way are aborted, and sent again by another worker. */
  async close(): Promise<void> {
    this.#stopping.abort();
    await Promise.all(this.#repeats.map((one) => one.close()));
  }

  /** Runs a part of the work, which the next tick tries again. */
  async #attempt(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      this.#warn({ event: 'events_failed', ...errorFields(error) });
    }
  }

  async #make(): Promise<void> {
    const { db, subscribers, log } = this.#options;
    const names = subscribers.map(({ name }) => name);
    await touchSubscribers(db, names);
    while (!this.#stopping.signal.aborted) {
      const made = await makeEvents(db);
      if (made.missed) log.error({ event: 'events_missed' });
      else if (!made.more) return;
    }
  }

  /** Posts what is due, a few at a time, until nothing is or the receiver fails. */
  async #postDue(receiver: Receiver): Promise<void> {
    const { db, timeoutMs } = this.#options;
    const { name, personalData } = receiver.subscriber;
    while (!this.#stopping.signal.aborted && performance.now() >= receiver.retryAtMs) {
      const maxEvents = receiver.failures > 0 ? 1 : maxPosts;
      const leaseMs = timeoutMs + leaseMarginMs;
      const claimed = await claimEvents(db, { subscriber: name, maxEvents, leaseMs, personalData });
      if (claimed.length === 0) return;
      const taken = await Promise.all(claimed.map((event) => this.#post(receiver.subscriber, event)));
      receiver.failures = taken.includes(true) ? 0 : receiver.failures + 1;
      if (receiver.failures > 0)
        receiver.retryAtMs = performance.now() + toPauseMs(pauses.receiver, receiver.failures, Math.random());
    }
  }

  /** Posts an event once, and records the result. Returns true if the receiver took it. */
  async #post(
    { name, url, secret }: EventSubscriber,
    { id, messageId, type, attempts, body }: ClaimedEvent,
  ): Promise<boolean> {
    const { db, dispatcher, timeoutMs } = this.#options;
    const { signal } = this.#stopping;
    const answer = await postWebhook({ url, secret, dispatcher, timeoutMs }, messageId, body, signal);
    if (answer.delivered) {
      await recordTaken(db, id);
      return true;
    }
    const delayMs = signal.aborted ? 0 : toPauseMs(pauses.event, attempts, Math.random(), answer.retryAfterMs);
    const { code, error } = answer;
    if (!signal.aborted) this.#warn({ event: 'event_not_delivered', task: name, kind: type, code, error, delayMs });
    await recordRefused(db, id, { error, delayMs, maxAgeMs });
    return false;
  }
}
