import { StoppedError, toStopError } from '../../core/errors.ts';
import type { RequestQuota } from '../sql/request-budgets.ts';

/** Takes up to this many requests from the account's budget, which other processes share. */
export type TakeQuota = (wanted: number) => Promise<RequestQuota>;

/**
 * The largest quota, as a part of a second's requests: other processes come between.
 */
const quotasPerSecond = 4;
/** The next quota is taken this many milliseconds before the last one is used up. */
const aheadMs = 100;

/** A request that waits for its turn. */
interface Waiter {
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** The right to begin one request between two moments, by performance.now(). */
interface Permit {
  readonly fromMs: number;
  readonly untilMs: number;
}

/**
 * Delays the requests to the service of one account so that all processes together send at most
 * `perSecond` in a second. Requests take their turns in the order in which they came. Nothing is
 * taken while no request waits.
 */
export class RequestBudget {
  readonly #perSecond: number;
  readonly #takeQuota: TakeQuota;
  readonly #waiting = new Set<Waiter>();
  #permits: Permit[] = [];
  #isTaking = false;
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;
  /** Requests that began in a second of this process, and in the second before it. */
  #recent = { second: 0, begun: 0, before: 0 };

  constructor(perSecond: number, takeQuota: TakeQuota) {
    this.#perSecond = perSecond;
    this.#takeQuota = takeQuota;
  }

  /**
   * Waits until one more request may begin.
   * @throws StoppedError if the signal was aborted or the budget was closed, or the error of the
   *   database
   */
  async waitForTurn(signal: AbortSignal): Promise<void> {
    if (signal.aborted) throw toStopError(signal);
    if (this.#isClosed) throw new StoppedError();

    const turn = Promise.withResolvers<void>();
    const waiter = { resolve: turn.resolve, reject: turn.reject };
    const onAbort = () => {
      this.#waiting.delete(waiter);
      turn.reject(toStopError(signal));
    };

    signal.addEventListener('abort', onAbort, { once: true });
    this.#waiting.add(waiter);
    this.#serveWaiters();

    try {
      await turn.promise;
    } finally {
      signal.removeEventListener('abort', onAbort);
    }
  }

  /** Lets every waiting request fail with StoppedError. */
  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#rejectFrom(0, new StoppedError());
  }

  /**
   * Lets requests begin whose time has come, takes another quota if needed, and waits for the next
   * moment.
   */
  #serveWaiters(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const nowMs = performance.now();

    this.#usePermits(nowMs);
    if (this.#waiting.size === 0) return;

    const takeAtMs = (this.#permits.at(-1)?.fromMs ?? nowMs) - aheadMs;
    const needsMore = this.#waiting.size > this.#permits.length;
    if (needsMore && takeAtMs <= nowMs && !this.#isTaking) void this.#takePermits(nowMs);

    const wakeAtMs = Math.min(
      this.#permits[0]?.fromMs ?? Number.POSITIVE_INFINITY,
      needsMore && !this.#isTaking ? takeAtMs : Number.POSITIVE_INFINITY,
    );
    if (Number.isFinite(wakeAtMs))
      this.#timer = setTimeout(
        () => this.#serveWaiters(),
        Math.max(1, Math.ceil(wakeAtMs - nowMs)),
      );
  }

  /** Lets waiting requests begin, each by a permit whose time has come. */
  #usePermits(nowMs: number): void {
    this.#permits = this.#permits.filter(({ untilMs }) => nowMs < untilMs);

    for (const waiter of this.#waiting) {
      const [permit] = this.#permits;
      if (permit === undefined || permit.fromMs > nowMs) return;

      this.#permits.shift();
      this.#waiting.delete(waiter);
      this.#count(nowMs).begun += 1;
      waiter.resolve();
    }
  }

  /**
   * Takes a quota: for all that wait, or a part of what was sent lately, since more will follow.
   * The moments of a quota are never early: the database read its clock before it answered. They
   * end by the time before it was asked.
   */
  async #takePermits(askedAtMs: number): Promise<void> {
    this.#isTaking = true;

    const { begun, before } = this.#count(askedAtMs);
    const missing = this.#waiting.size - this.#permits.length;
    const expected = Math.ceil(Math.max(begun, before) / quotasPerSecond);
    const wanted = Math.min(
      Math.ceil(this.#perSecond / quotasPerSecond),
      Math.max(missing, expected),
    );

    try {
      const { requests, startsInMs, endsInMs } = await this.#takeQuota(wanted);
      const answeredAtMs = performance.now();

      for (let index = 0; index < requests; index++) {
        const fromMs = answeredAtMs + startsInMs + (index * 1_000) / this.#perSecond;
        this.#permits.push({ fromMs, untilMs: askedAtMs + endsInMs });
      }

      this.#isTaking = false;
      this.#serveWaiters();
    } catch (error) {
      this.#isTaking = false;
      // Those that already have a moment keep it.
      this.#rejectFrom(this.#permits.length, error);
      this.#serveWaiters();
    }
  }

  /** Lets the waiting requests fail, except the first ones. */
  #rejectFrom(kept: number, error: unknown): void {
    for (const waiter of [...this.#waiting].slice(kept)) {
      this.#waiting.delete(waiter);
      waiter.reject(error);
    }
  }

  /** Returns the count of the present second. */
  #count(nowMs: number): { begun: number; readonly before: number } {
    const second = Math.floor(nowMs / 1_000);
    const { second: last, begun } = this.#recent;
    if (second !== last)
      this.#recent = { second, begun: 0, before: second === last + 1 ? begun : 0 };
    return this.#recent;
  }
}

/** Makes a budget of this process alone, for a program without a database. */
export function makeLocalQuotas(perSecond: number): TakeQuota {
  let nextAtMs = 0;
  return (wanted) => {
    const nowMs = performance.now();
    const startAtMs = Math.max(nowMs, nextAtMs);
    nextAtMs = startAtMs + (wanted * 1_000) / perSecond;
    return Promise.resolve({
      requests: wanted,
      startsInMs: startAtMs - nowMs,
      endsInMs: nextAtMs + 1_000 - nowMs,
    });
  };
}
