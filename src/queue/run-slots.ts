import { hourMs } from '../core/time.ts';

/** Maximum share of a worker's slots that one of several clients may use. */
const maxClientShare = 0.25;
/** Maximum share of the slots that long runs may use together. The rest is left to short runs. */
const maxLongShare = 0.5;
/** A run counts as long after this time. */
export const shortMs = 10_000;
/** If another long run waits, a long run gives its slot up after this time. Each time it had to, it gets twice as long. */
export const longTurnMs = 300_000;
const maxTurnMs = 6 * hourMs;
/** A waiting run that was not queued again for this long is not due any more. The sweeper queues what is due every 30 s. */
const waitsForMs = 120_000;

/** The slot of a run under way. */
export interface RunSlot {
  /**
   * Releases the slot.
   * @param ended false if the run was asked to make room and has to continue later
   * @returns clients whose runs were rejected meanwhile and should be queued again
   */
  readonly give: (ended: boolean) => readonly string[];
}

/**
 * Decides which runs a worker makes at the same time. One client cannot use all slots. Long runs, such as first loads,
 * cannot either: if a run becomes long while no slot for a long run is free, it is asked to make room. Its pages stay
 * committed, it is due at once, and it continues when a long run ends.
 */
export class RunSlots {
  readonly #mostOfClient: number;
  readonly #mostLong: number;
  readonly #running = new Map<string, number>();
  readonly #turnedAway = new Set<string>();
  #long = 0;
  /** Runs that made room, by client and job. Such a run starts again when a slot for a long run is free. */
  readonly #waiting = new Map<string, { readonly client: string; seenMs: number }>();
  /** How long a run may keep its slot, if it had to give it up before. */
  readonly #turnMs = new Map<string, number>();

  /**
   * @param slots number of runs that the worker makes at the same time
   * @param forLongWork true for a queue of long work only: there are no short runs to protect
   */
  constructor(slots: number, clients: number, forLongWork = false) {
    this.#mostOfClient = clients > 1 ? Math.max(1, Math.floor(slots * maxClientShare)) : slots;
    this.#mostLong = clients > 1 && !forLongWork ? Math.max(1, Math.floor(slots * maxLongShare)) : slots;
  }

  /**
   * Takes a slot. Returns null if there is none for this run, and remembers its client.
   * @param makeRoom called once, if the run has to stop; null if it would lose what it has done
   */
  take(client: string, job: string, makeRoom: (() => void) | null): RunSlot | null {
    const running = this.#running.get(client) ?? 0;
    if (running >= this.#mostOfClient) {
      this.#turnedAway.add(client);
      return null;
    }
    const key = `${client} ${job}`;
    const waiting = this.#waiting.get(key);
    if (waiting !== undefined && this.#long >= this.#mostLong) {
      waiting.seenMs = performance.now();
      return null;
    }
    this.#waiting.delete(key);
    this.#running.set(client, running + 1);
    const watch = this.#watch(key, client, waiting !== undefined, makeRoom);
    const give = (ended: boolean) => {
      const wasLong = watch.end();
      if (ended) {
        this.#waiting.delete(key);
        this.#turnMs.delete(key);
      }
      return this.#give(client, wasLong);
    };
    return { give };
  }

  /** Watches how long a run takes. Returns a function that ends the watch and says whether the run was long. */
  #watch(key: string, client: string, resumes: boolean, makeRoom: (() => void) | null): { end: () => boolean } {
    let isLong = resumes;
    if (isLong) this.#long++;
    const leave = () => {
      this.#waiting.set(key, { client, seenMs: performance.now() });
      makeRoom?.();
    };
    const endTurn = () => {
      if (makeRoom !== null && this.#anyWaits()) {
        this.#turnMs.set(key, Math.min(maxTurnMs, 2 * turnMs));
        leave();
      } else timer = setTimeout(endTurn, shortMs);
    };
    const turnMs = this.#turnMs.get(key) ?? longTurnMs;
    const becomeLong = () => {
      if (!isLong && makeRoom !== null && this.#long >= this.#mostLong) return leave();
      if (!isLong) this.#long++;
      isLong = true;
      timer = setTimeout(endTurn, turnMs);
    };
    let timer = setTimeout(becomeLong, isLong ? 0 : shortMs);
    return {
      end: () => {
        clearTimeout(timer);
        return isLong;
      },
    };
  }

  /** Returns true if a long run waits for a slot. Forgets those that are not due any more. */
  #anyWaits(): boolean {
    const earliestMs = performance.now() - waitsForMs;
    for (const [key, { seenMs }] of this.#waiting) if (seenMs < earliestMs) this.#waiting.delete(key);
    return this.#waiting.size > 0;
  }

  #give(client: string, wasLong: boolean): readonly string[] {
    const running = (this.#running.get(client) ?? 1) - 1;
    if (running > 0) this.#running.set(client, running);
    else this.#running.delete(client);
    if (wasLong) this.#long--;
    const wake = new Set(wasLong ? [...this.#waiting.values()].map((waiting) => waiting.client) : []);
    if (this.#turnedAway.delete(client)) wake.add(client);
    return [...wake];
  }
}
