/** A client among several gets at most so large a share of a worker's slots. */
const maxClientShare = 0.25;
/** Long runs of several clients together get at most so large a share: the others stay for runs that end soon. */
const maxLongShare = 0.5;
/** A run is long once it has taken so long. */
export const shortMs = 10_000;
/** A long run has its slot for so long, where others wait for one. */
export const longTurnMs = 300_000;

/** The slot of a run under way. */
export interface RunSlot {
  /**
   * Gives the slot back.
   * @param ended whether the run came to an end by itself, rather than was asked to make room
   * @returns clients of which runs were turned away for it and should be queued again
   */
  readonly give: (ended: boolean) => readonly string[];
}

/**
 * Whose runs a worker makes at the same time: no client takes all slots, and neither do runs that go on for long, such as
 * first loads. A run that becomes long while as many others are is asked to make room: what it has committed stays, it is
 * due at once, and goes on when a long one ends.
 */
export class RunSlots {
  readonly #mostOfClient: number;
  readonly #mostLong: number;
  readonly #running = new Map<string, number>();
  readonly #turnedAway = new Set<string>();
  #long = 0;
  /** Runs, by client and job, that had to make room: they are not begun again before there is a slot for a long one. */
  readonly #waiting = new Map<string, string>();

  /**
   * @param slots runs that the worker makes at the same time
   * @param forLongWork whether the queue is for long work only: there is nothing then that it could stand in the way of
   */
  constructor(slots: number, clients: number, forLongWork = false) {
    this.#mostOfClient = clients > 1 ? Math.max(1, Math.floor(slots * maxClientShare)) : slots;
    this.#mostLong = clients > 1 && !forLongWork ? Math.max(1, Math.floor(slots * maxLongShare)) : slots;
  }

  /**
   * Takes a slot; null where there is none for it, which is remembered.
   * @param makeRoom called once, where the run has to end before its time
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
