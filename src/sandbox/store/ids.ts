import type { Random } from '../random.ts';

/** Place of a client among those of a world. */
export interface Stride {
  readonly index: number;
  readonly count: number;
}

/** Draws ids that rise strictly, with gaps, and that no other client of the same world is given. */
export class Ids {
  readonly #random: Random;
  readonly #stride: Stride;
  /** The last number drawn. */
  last = 1_000;

  constructor(random: Random, stride: Stride) {
    this.#random = random;
    this.#stride = stride;
  }

  next(): number {
    this.last += this.#random.between(1, 3);
    return this.last * this.#stride.count + this.#stride.index;
  }
}
