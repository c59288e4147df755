/**
 * Milliseconds for which a busy pusher promises to look by itself. A row that nobody was notified
 * of is found within this time, even if that pusher is killed: all workers look when it is over.
 */
export const awakeMs = 1_500;
/** The promise is renewed after this time, while rows keep coming. */
const renewMs = 500;
/**
 * All workers look once more this long after nobody is awake any more: an insert that was committed
 * until then may have been decided before, when somebody still was.
 */
export const lastLookMs = 1_000;
/** Notifications between two looks from which a pusher looks by itself. */
const crowd = 3;
/** Maximum number of looks for each one that found work. A pusher that looks more falls asleep. */
const maxLooksPerFind = 4;

/**
 * Decides when a pusher looks for due rows by itself: while inserts come faster than it looks.
 * Notifications make the commits of the ERP wait for each other, so only pushers that have little
 * to do need them.
 */
export class Waking {
  /** Notifications since the last look. */
  #notified = 0;
  /** Looks since the last promise, and those at which there was work. */
  #looks = 0;
  #finds = 0;
  #awakeUntilMs = Number.NEGATIVE_INFINITY;
  /** When each client was last promised to. */
  readonly #promisedAtMs = new Map<string, number>();

  /** Counts a notification. */
  notify(): void {
    this.#notified++;
  }

  /** Returns true if the pusher has to look by itself. */
  isAwake(nowMs: number): boolean {
    return nowMs < this.#awakeUntilMs;
  }

  /**
   * Notes a look.
   * @param due the clients that have due rows and are not held
   * @param isWorking true if rows were claimed since the last look, or due rows wait for room
   * @returns the clients to which it must be said now that the pusher is awake for `awakeMs`
   */
  look(due: readonly string[], isWorking: boolean, nowMs: number): readonly string[] {
    const isCrowded = this.#notified >= crowd;
    this.#notified = 0;
    this.#looks++;
    if (isWorking) this.#finds++;

    const findsEnough = this.#finds * maxLooksPerFind >= this.#looks;
    if (!isCrowded && !(this.isAwake(nowMs) && findsEnough)) return [];

    const isOver = (client: string) =>
      nowMs - (this.#promisedAtMs.get(client) ?? Number.NEGATIVE_INFINITY) >= renewMs;
    const promised = due.filter(isOver);
    if (promised.length === 0) return [];

    for (const client of promised) this.#promisedAtMs.set(client, nowMs);
    this.#awakeUntilMs = nowMs + awakeMs;
    this.#looks = 0;
    this.#finds = 0;
    return promised;
  }
}

/** Wakes loops: all that wait for it continue when it rings. */
export class Bell {
  #ring = Promise.withResolvers<void>();

  /**
   * Resolves at the next ring. Read it before you check what may change, so that no ring between
   * the check and the wait is missed.
   */
  get next(): Promise<void> {
    return this.#ring.promise;
  }

  ring(): void {
    const { resolve } = this.#ring;
    this.#ring = Promise.withResolvers();
    resolve();
  }

  /** Resolves at the next ring, or after this many milliseconds. */
  async nextWithin(ms: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, ms);

    await Promise.race([promise, this.next]);
    clearTimeout(timer);
  }
}
