import type { Random } from '../random.ts';

/** The position of a client among the clients of a world. */
export interface ClientPosition {
  readonly index: number;
  readonly count: number;
}

/** Draws ascending ids with gaps. No two clients of a world get the same id. */
export class Ids {
  readonly #random: Random;
  readonly #position: ClientPosition;
  /** The last drawn number. */
  last = 1_000;

  constructor(random: Random, position: ClientPosition) {
    this.#random = random;
    this.#position = position;
  }

  next(): number {
    this.last += this.#random.between(1, 3);
    return this.last * this.#position.count + this.#position.index;
  }
}
