/** Maximum share of a worker's slots that one of several clients may use. */
const maxClientShare = 0.25;
/** Maximum share of the slots that long runs may use together. The rest is left to short runs. */
const maxLongShare = 0.5;
/** A run counts as long after this time. */
export const shortMs = 10_000;
/** If another long run waits, a long run gives its slot up after this time. */
export const longTurnMs = 300_000;

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
  /** Clients of the runs that made room, by client and job. Such a run starts again when a slot for a long run is free. */
  readonly #waiting = new Map<string, string>();

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
   * @param makeRoom called once, if the run has to stop
   */
  take(client: string, job: string, makeRoom: () => void): RunSlot | null {
    const running = this.#running.get(client) ?? 0;
    if (running >= this.#mostOfClient) {
      this.#turnedAway.add(client);
      return null;
    }
    const key = `${client} ${job}`;
    const goesOn = this.#waiting.has(key);
    if (goesOn && this.#long >= this.#mostLong) return null;
    this.#waiting.delete(key);
    this.#running.set(client, running + 1);
    let isLong = goesOn;
    if (isLong) this.#long++;
    const leave = () => {
      this.#waiting.set(key, client);
      makeRoom();
    };
    const lookAgain = () => {
      if (this.#waiting.size > 0) leave();
      else timer = setTimeout(lookAgain, shortMs);
    };
    let timer = setTimeout(
      () => {
        if (!isLong && this.#long >= this.#mostLong) return leave();
        if (!isLong) this.#long++;
        isLong = true;
        timer = setTimeout(lookAgain, longTurnMs);
      },
      isLong ? 0 : shortMs,
    );
    const give = (ended: boolean) => {
      clearTimeout(timer);
      if (ended) this.#waiting.delete(key);
      return this.#give(client, isLong);
    };
    return { give };
  }

  #give(client: string, wasLong: boolean): readonly string[] {
    const running = (this.#running.get(client) ?? 1) - 1;
    if (running > 0) this.#running.set(client, running);
    else this.#running.delete(client);
    if (wasLong) this.#long--;
    const wake = new Set(wasLong ? this.#waiting.values() : []);
    if (this.#turnedAway.delete(client)) wake.add(client);
    return [...wake];
  }
}
