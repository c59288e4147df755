/** Maximum share of a worker's slots that one client may use, if there are several clients. */
const maxClientShare = 0.25;
/** Maximum share of the slots that long runs may use together. The rest is left to short runs. */
const maxLongShare = 0.5;
/** A run counts as long after this time. */
export const shortMs = 10_000;
/** If another long run waits, a long run gives up its slot after this time. */
export const longTurnMs = 300_000;
/** If a waiting run does not ask for a slot again within this time, it is no longer due. Sweeps try due runs every 3 s. */
const maxWaitMs = 120_000;

/**
 * Ends the use of a slot.
 * @param hasEnded false if the run was asked to make room and must continue later
 * @returns runs that found no slot before, and may find one now
 */
export type GiveSlot = (hasEnded: boolean) => readonly SlotRun[];

/** A run that needs a slot. */
interface SlotRun {
  readonly client: string;
  readonly job: string;
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
  /** Number of runs of each client. */
  readonly #running = new Map<string, number>();
  /** Runs that found no slot, in the order in which they came. */
  readonly #refused = new Map<string, SlotRun>();
  /** Runs that made room, by client and job. They start again when a slot for a long run is free. */
  readonly #waiting = new Map<string, SlotRun & { readonly askedAtMs: number }>();
  #taken = 0;
  #long = 0;

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
   * Takes a slot for a run. Returns null if none is free for it, and then remembers the run.
   * @param makeRoom called once if the run must stop; null if the run would lose its progress
   */
  take(run: SlotRun, makeRoom: (() => void) | null): GiveSlot | null {
    const { client, job } = run;
    const key = `${client} ${job}`;
    const running = this.#running.get(client) ?? 0;
    const isLong = this.#waiting.has(key);
    const mustWait = isLong && this.#long >= this.#maxLong;
    if (mustWait) this.#waiting.set(key, { ...run, askedAtMs: performance.now() });
    const isFull = this.#taken >= this.#slots || running >= this.#maxPerClient;
    if (isFull) this.#refused.set(key, run);
    if (isFull || mustWait) return null;
    this.#waiting.delete(key);
    this.#refused.delete(key);
    this.#running.set(client, running + 1);
    this.#taken++;
    const endWatch = this.#watch(key, run, isLong, makeRoom);
    return (hasEnded) => {
      const wasLong = endWatch();
      if (wasLong) this.#long--;
      if (hasEnded) this.#waiting.delete(key);
      this.#taken--;
      this.#running.set(client, (this.#running.get(client) ?? 1) - 1);
      return [...(wasLong ? this.#waiting.values() : []), ...this.#takeRefused()];
    };
  }

  /** Asks a run to make room when it takes too long. Returns a function that ends this, and tells if the run was long. */
  #watch(key: string, run: SlotRun, resumes: boolean, makeRoom: (() => void) | null): () => boolean {
    let isLong = resumes;
    if (isLong) this.#long++;
    const endTurn = () => {
      if (makeRoom === null || !this.#hasWaitingRun()) timer = setTimeout(endTurn, shortMs);
      else leave(makeRoom);
    };
    const leave = (stop: () => void) => {
      this.#waiting.set(key, { ...run, askedAtMs: performance.now() });
      stop();
    };
    const becomeLong = () => {
      if (makeRoom !== null && this.#long >= this.#maxLong) return leave(makeRoom);
      this.#long++;
      isLong = true;
      timer = setTimeout(endTurn, longTurnMs);
    };
    let timer = isLong ? setTimeout(endTurn, longTurnMs) : setTimeout(becomeLong, shortMs);
    return () => {
      clearTimeout(timer);
      return isLong;
    };
  }

  /** Returns true if a long run waits for a slot. Forgets runs that are no longer due. */
  #hasWaitingRun(): boolean {
    const earliestMs = performance.now() - maxWaitMs;
    for (const [key, { askedAtMs }] of this.#waiting) if (askedAtMs < earliestMs) this.#waiting.delete(key);
    return this.#waiting.size > 0;
  }

  /** Returns the first refused run whose client is below its limit. */
  #takeRefused(): readonly SlotRun[] {
    for (const [key, run] of this.#refused) {
      if ((this.#running.get(run.client) ?? 0) >= this.#maxPerClient) continue;
      this.#refused.delete(key);
      return [run];
    }
    return [];
  }
}
