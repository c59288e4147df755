/** So many attempts in a row that the service did not answer are an outage. */
const openAfter = 10;

/** How long pushes pause in an outage; twice as long each time that the pause did not help, up to the cap. */
export const breakerPauseMs = 5_000;
export const breakerCapMs = 60_000;

/** Counts what came back from one client's service. The pause itself is kept in the database, for all workers. */
export class Breaker {
  #failures = 0;

  /**
   * Notes how an attempt ended.
   * @returns whether the pushes of this client are to pause now
   */
  note(answered: boolean): boolean {
    this.#failures = answered ? 0 : this.#failures + 1;
    if (this.#failures < openAfter) return false;
    this.#failures = 0;
    return true;
  }
}
