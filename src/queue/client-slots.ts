/** A client among several gets at most so large a share of a worker's slots. */
const maxShare = 0.25;

/** Sees to it that no client takes all the slots of a worker: one whose service is slow must not hold up the others. */
export class ClientSlots {
  readonly #most: number;
  readonly #running = new Map<string, number>();
  readonly #turnedAway = new Set<string>();

  /** @param slots runs that the worker makes at the same time */
  constructor(slots: number, clients: number) {
    this.#most = clients > 1 ? Math.max(1, Math.floor(slots * maxShare)) : slots;
  }

  /** Takes a slot; where the client has its share already, it is remembered that it wanted more. */
  take(client: string): boolean {
    const running = this.#running.get(client) ?? 0;
    if (running >= this.#most) {
      this.#turnedAway.add(client);
      return false;
    }
    this.#running.set(client, running + 1);
    return true;
  }

  /**
   * Gives a slot back.
   * @returns whether a run of this client was turned away meanwhile and should be queued again
   */
  give(client: string): boolean {
    const running = (this.#running.get(client) ?? 1) - 1;
    if (running > 0) this.#running.set(client, running);
    else this.#running.delete(client);
    return this.#turnedAway.delete(client);
  }
}
