/** Posts deliveries to their receivers. */

import { setTimeout as wait } from 'node:timers/promises';
import type { Dispatcher } from 'undici';
import type { Backoff } from '../../core/backoff.ts';
import {
  type Answer,
  type GiveUp,
  judgeDelivery,
  judgeReceiver,
  maxPlaces,
} from '../../core/delivery.ts';
import { errorFields, type Logger, throttleWarnings } from '../../core/logger.ts';
import { dayMs, minuteMs } from '../../core/time.ts';
import { isUnreachable } from '../../db/is-unreachable.ts';
import type { Database } from '../../db/pool.ts';
import {
  type ClaimedDelivery,
  claimDeliveries,
  returnDelivery,
  settleAttempt,
} from '../sql/claim-deliveries.ts';
import { readEventBody } from '../sql/event-rows.ts';
import { type RegisteredReceiver, registerReceivers, touchReceivers } from '../sql/receivers.ts';
import { postWebhook } from './post-webhook.ts';

/** A receiver, and how to reach it. */
export interface Receiver extends RegisteredReceiver {
  readonly url: string;
  readonly secret: string | undefined;
  /** True if names, addresses and other personal data are posted. */
  readonly personalData: boolean;
}

/** Times of deliveries. Tests shorten them. */
const usualTimes: GiveUp & { readonly tickMs: number; readonly pause?: Backoff } = {
  /** Interval in which a worker looks for due deliveries. */
  tickMs: 1_000,
  maxAgeMs: 3 * dayMs,
  minTries: 10,
};
/** Time beyond the timeout of a post after which another worker takes the delivery over. */
const leaseMarginMs = 10_000;
/** Interval in which a worker records that it has its receivers. */
const touchMs = minuteMs;

interface DelivererOptions {
  readonly db: Database;
  readonly receivers: readonly Receiver[];
  readonly dispatcher: Dispatcher;
  /** Maximum milliseconds of a post. */
  readonly timeoutMs: number;
  readonly log: Logger;
  readonly times?: typeof usualTimes;
}

/**
 * Posts deliveries. Several workers share them by Postgres: each is posted at least once, after the
 * earlier ones of its lane. Each receiver has a loop of its own, so that none waits for another.
 */
export class Deliverer {
  readonly #options: DelivererOptions;
  readonly #times: typeof usualTimes;
  readonly #warn: ReturnType<typeof throttleWarnings>;
  readonly #stopping = new AbortController();
  #work: Promise<void> | undefined;
  #nextTouchMs = 0;

  constructor(options: DelivererOptions) {
    this.#options = options;
    this.#times = options.times ?? usualTimes;
    this.#warn = throttleWarnings(options.log);
  }

  /**
   * Registers the receivers, and begins. If the database refuses that, it is tried again with each
   * tick.
   */
  async start(): Promise<void> {
    this.#work = this.#begin(await this.#register());
  }

  /** Stops. Posts under way are aborted, and sent again by another worker. */
  async close(): Promise<void> {
    this.#stopping.abort();
    await this.#work;
  }

  async #register(): Promise<boolean> {
    const { db, receivers } = this.#options;
    // The database gets neither addresses nor secrets.
    const registered = receivers.map(({ name, kind, types, clients }) => {
      return { name, kind, types, clients };
    });

    try {
      await registerReceivers(db, registered);
      return true;
    } catch (error) {
      this.#warn({ event: 'deliveries_failed', task: 'register', ...errorFields(error) });
      return false;
    }
  }

  async #begin(registered: boolean): Promise<void> {
    while (!registered && !this.#stopping.signal.aborted) {
      await this.#tick();
      registered = await this.#register();
    }

    await Promise.all(this.#options.receivers.map((receiver) => this.#run(receiver)));
  }

  /**
   * Claims what is due and posts it, each delivery by itself: one that takes long keeps only its
   * own place.
   */
  async #run(receiver: Receiver): Promise<void> {
    const { signal } = this.#stopping;
    const posts = new Set<Promise<void>>();
    let lastTurn = '';
    let tick: Promise<unknown> | undefined;

    while (!signal.aborted) {
      const claimed = await this.#claim(receiver, posts.size, lastTurn);
      lastTurn = claimed.at(-1)?.turn ?? lastTurn;
      for (const delivery of claimed) {
        const post = this.#deliver(receiver, delivery).finally(() => posts.delete(post));
        posts.add(post);
      }

      if (claimed.length > 0 && posts.size < maxPlaces) continue;
      tick ??= this.#tick().finally(() => {
        tick = undefined;
      });
      await Promise.race([...posts, tick]);
    }

    await Promise.all(posts);
  }

  /** Waits for the next tick. Records now and then that a worker has the receivers. */
  async #tick(): Promise<void> {
    const { db, receivers } = this.#options;
    const { signal } = this.#stopping;
    await wait(this.#times.tickMs, undefined, { signal }).catch(() => undefined);

    if (performance.now() < this.#nextTouchMs) return;
    this.#nextTouchMs = performance.now() + touchMs;

    const names = receivers.map(({ name }) => name);
    await touchReceivers(db, names).catch((error: unknown) =>
      this.#warn({ event: 'deliveries_failed', task: 'touch', ...errorFields(error) }),
    );
  }

  /** Claims deliveries. Returns none if the database fails; the next tick tries again. */
  async #claim({ name }: Receiver, underWay: number, lastTurn: string): Promise<ClaimedDelivery[]> {
    const { db, timeoutMs } = this.#options;
    try {
      return await claimDeliveries(db, {
        receiver: name,
        underWay,
        lastTurn,
        leaseMs: timeoutMs + leaseMarginMs,
      });
    } catch (error) {
      this.#warn({ event: 'deliveries_failed', task: name, ...errorFields(error) });
      return [];
    }
  }

  /**
   * Posts a delivery once, and records the result. A result that the database does not take is
   * lost: it is posted again.
   */
  async #deliver(receiver: Receiver, delivery: ClaimedDelivery): Promise<void> {
    const { db } = this.#options;
    const { signal } = this.#stopping;
    try {
      const answer = await this.#post(receiver, delivery);
      if (answer === null || (answer.kind !== 'taken' && signal.aborted))
        await returnDelivery(db, delivery);
      else await this.#settle(receiver, delivery, answer);
    } catch (error) {
      this.#warn({ event: 'deliveries_failed', task: receiver.name, ...errorFields(error) });
    }
  }

  /**
   * Posts a delivery. Returns null if there is nothing to post, or if the database is away.
   */
  async #post(
    receiver: Receiver,
    { id, messageId, body }: ClaimedDelivery,
  ): Promise<Answer | null> {
    const { db, dispatcher, timeoutMs } = this.#options;
    const { name, url, secret, personalData } = receiver;

    let text = body;
    try {
      text ??= await readEventBody(db, id, personalData);
    } catch (error) {
      const { code, error: words } = errorFields(error);
      // A row that cannot be read holds only its own lane.
      if (!isUnreachable(error)) return { kind: 'refused', code, error: words };
      this.#warn({ event: 'deliveries_failed', task: name, code, error: words });
    }

    if (text === null) return null;
    const webhook = { url, secret, dispatcher, timeoutMs };
    return postWebhook(webhook, messageId, text, this.#stopping.signal);
  }

  async #settle(
    { name, kind }: Receiver,
    delivery: ClaimedDelivery,
    answer: Answer,
  ): Promise<void> {
    const { db, log } = this.#options;
    const { pause } = this.#times;
    const { tries, ageMs, type } = delivery;
    const attempt = { answer, tries, ageMs, random: Math.random() };
    const end = judgeDelivery(attempt, this.#times, pause);
    const failure = answer.kind === 'taken' ? null : answer;
    await settleAttempt(db, { receiver: name, delivery, end, failure }, (state) =>
      judgeReceiver(state, attempt, pause),
    );

    if (failure === null) return;
    const { code, error } = failure;
    const fields = { task: name, kind: type, code, error };
    if (end.status === 'dead') log.error({ event: `${kind}_given_up`, ...fields });
    else if (end.status === 'waiting')
      this.#warn({ event: `${kind}_not_delivered`, ...fields, delayMs: end.delayMs });
  }
}
