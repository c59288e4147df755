/**
 * A clock of virtual time. It runs `speed` times as fast as real time, or not at all if `speed` is 0. `advance` moves
 * it forward at once.
 */
export class VirtualClock {
  #baseMs: number;
  #realBaseMs = performance.now();
  #speed: number;

  constructor(startMs: number, speed: number) {
    this.#baseMs = startMs;
    this.#speed = speed;
  }

  nowMs(): number {
    return Math.floor(this.#baseMs + (performance.now() - this.#realBaseMs) * this.#speed);
  }

  advance(ms: number): void {
    this.#rebase(ms);
  }

  #rebase(ms: number): void {
    this.#baseMs = this.nowMs() + ms;
    this.#realBaseMs = performance.now();
  }
}
