/** An entry of the agenda: something that happens at a moment of virtual time. */
export interface TimedEntry {
  readonly atMs: number;
  /** Order among the entries of the same moment. */
  readonly place: number;
}

const comesBefore = (left: TimedEntry, right: TimedEntry) =>
  left.atMs < right.atMs || (left.atMs === right.atMs && left.place < right.place);

/** The planned entries, earliest first (a binary heap). */
export class Agenda<T extends TimedEntry> {
  readonly #entries: T[] = [];

  /** All entries, in no particular order. */
  get entries(): readonly T[] {
    return this.#entries;
  }

  /** Returns the earliest entry and keeps it. */
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

  /** Removes and returns the earliest entry. */
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
