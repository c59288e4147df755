/** Something that happens at a virtual moment. */
export interface Timed {
  readonly atMs: number;
  /** Order among those of one moment. */
  readonly place: number;
}

const comesBefore = (left: Timed, right: Timed) =>
  left.atMs < right.atMs || (left.atMs === right.atMs && left.place < right.place);

/** What is to happen, earliest first (a binary heap). */
export class Agenda<T extends Timed> {
  readonly #entries: T[] = [];

  /** In no particular order. */
  get entries(): readonly T[] {
    return this.#entries;
  }

  peek(): T | undefined {
    return this.#entries[0];
  }

  push(entry: T): void {
    const entries = this.#entries;
    let index = entries.push(entry) - 1;
    while (index > 0) {
      const parent = (index - 1) >> 1;
      if (!this.#swapIfBefore(index, parent)) return;
      index = parent;
    }
  }

  pop(): T | undefined {
    const entries = this.#entries;
    const [first, last] = [entries[0], entries.pop()];
    if (first === undefined || last === undefined || entries.length === 0) return first;
    entries[0] = last;
    for (let index = 0; ; ) {
      const [left, right] = [2 * index + 1, 2 * index + 2];
      const smaller = this.#isBefore(right, left) ? right : left;
      if (!this.#swapIfBefore(smaller, index)) return first;
      index = smaller;
    }
  }

  #isBefore(index: number, other: number): boolean {
    const [left, right] = [this.#entries[index], this.#entries[other]];
    return left !== undefined && right !== undefined && comesBefore(left, right);
  }

  #swapIfBefore(index: number, other: number): boolean {
    if (!this.#isBefore(index, other)) return false;
    const [left, right] = [this.#entries[index] as T, this.#entries[other] as T];
    this.#entries[index] = right;
    this.#entries[other] = left;
    return true;
  }
}
