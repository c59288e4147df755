import { hourMs } from '../core/time.ts';

/** Maximum share of a worker's slots that one client may use, if there are several clients. */
const maxClientShare = 0.25;
/** Maximum share of the slots that long runs may use together. The rest is left to short runs. */
const maxLongShare = 0.5;
/** A run counts as long after this time. */
export const shortMs = 10_000;
/**
 * If another long run waits, a long run gives up its slot after this time. Each time, its next turn is twice as long.
 */
export const longTurnMs = 300_000;
/** Maximum length of a turn of a long run. */
const maxTurnMs = 6 * hourMs;
/**
 * If a waiting run does not ask for a slot again within this time, it is no longer due. A sweep every 3 s tries due runs.
 */
const maxWaitMs = 120_000;

/** The slot of a run under way. */
export interface RunSlot {
  /**
   * Releases the slot.
   * @param ended false if the run was asked to make room and must continue later
   * @returns clients whose runs were rejected in the meantime and should be queued again
   */
  readonly give: (ended: boolean) => readonly string[];
}

/**
 * Decides which runs a worker executes at the same time. One client cannot use all slots, and long runs, such as first
 * loads, cannot use all slots either: if a run becomes long while no slot for a long run is free, it is asked to make
 * room. Its pages stay committed, it is due at once, and it continues when a long run ends.
 */
export class RunSlots {
  readonly #slots: number;
  readonly #maxPerClient: number;
  readonly #maxLong: number;
  readonly #running = new Map<string, number>();
  readonly #rejectedClients = new Set<string>();
  /** Clients that found no slot free at all, in the order in which they came. */
  readonly #crowdedOut = new Set<string>();
  #taken = 0;
  #long = 0;
  /** Runs that made room, by client and job. They start again when a slot for a long run is free. */
  readonly #waiting = new Map<string, { readonly client: string; seenMs: number }>();
  /** How long a run may keep its slot, for runs that had to give it up before. */
  readonly #turnMs = new Map<string, number>();

  /**
   * @param slots maximum number of runs at the same time
   * @param forLongWork true for a queue of long work only, which has no short runs to protect
   */
  constructor(slots: number, clients: number, forLongWork = false) {
    this.#slots = slots;
    this.#maxPerClient = clients > 1 ? Math.max(1, Math.floor(slots * maxClientShare)) : slots;
    this.#maxLong = clients > 1 && !forLongWork ? Math.max(1, Math.floor(slots * maxLongShare)) : slots;
  }

  /**
   * Takes a slot for a run. Returns null if none is free for it, and then remembers its client.
   * @param makeRoom called once if the run must stop; null if the run would lose its progress
   */
  take(client: string, job: string, makeRoom: (() => void) | null): RunSlot | null {
    if (this.#taken >= this.#slots) {
      this.#crowdedOut.add(client);
      return null;
    }
    const running = this.#running.get(client) ?? 0;
    if (running >= this.#maxPerClient) {
      this.#rejectedClients.add(client);
      return null;
    }
    const key = `${client} ${job}`;
    const waiting = this.#waiting.get(key);
    if (waiting !== undefined && this.#long >= this.#maxLong) {
      waiting.seenMs = performance.now();
      return null;
    }
    this.#waiting.delete(key);
    this.#running.set(client, running + 1);
    this.#taken++;
    const watch = this.#watch(key, client, waiting !== undefined, makeRoom);
    const give = (ended: boolean) => {
      const wasLong = watch.end();
      if (ended) {
        this.#waiting.delete(key);
        this.#turnMs.delete(key);
      }
      return this.#release(client, wasLong);
    };
    return { give };
  }

  /** Measures how long a run takes. `end` ends the measurement, and returns true if the run was long. */
  #watch(key: string, client: string, resumes: boolean, makeRoom: (() => void) | null): { end: () => boolean } {
    let isLong = resumes;
    if (isLong) this.#long++;
    const startWaiting = () => {
      this.#waiting.set(key, { client, seenMs: performance.now() });
      makeRoom?.();
    };
    const endTurn = () => {
      if (makeRoom !== null && this.#hasWaitingRun()) {
        this.#turnMs.set(key, Math.min(maxTurnMs, 2 * turnMs));
        startWaiting();
      } else timer = setTimeout(endTurn, shortMs);
    };
    const turnMs = this.#turnMs.get(key) ?? longTurnMs;
    const becomeLong = () => {
      if (!isLong && makeRoom !== null && this.#long >= this.#maxLong) return startWaiting();
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

  /** Returns true if a long run waits for a slot. Forgets runs that are no longer due. */
  #hasWaitingRun(): boolean {
    const earliestMs = performance.now() - maxWaitMs;
    for (const [key, { seenMs }] of this.#waiting) if (seenMs < earliestMs) this.#waiting.delete(key);
    return this.#waiting.size > 0;
  }

  #release(client: string, wasLong: boolean): readonly string[] {
    const running = (this.#running.get(client) ?? 1) - 1;
    if (running > 0) this.#running.set(client, running);
    else this.#running.delete(client);
    this.#taken--;
    if (wasLong) this.#long--;
    const wake = new Set(wasLong ? [...this.#waiting.values()].map((waiting) => waiting.client) : []);
    if (this.#rejectedClients.delete(client)) wake.add(client);
    const [next] = this.#crowdedOut;
    if (next !== undefined && this.#crowdedOut.delete(next)) wake.add(next);
    return [...wake];
  }
}
