/** What every row has. */
export interface StoredRow {
  readonly id: number;
}

/**
 * Rows in ascending order of id. Most rows are added at the end and changed near it, which is fast
 * in a plain array.
 */
export class SortedRows<T extends StoredRow> {
  readonly #rows: T[] = [];

  constructor(rows: Iterable<T> = []) {
    for (const row of rows) this.add(row);
  }

  get size(): number {
    return this.#rows.length;
  }

  add(row: T): void {
    this.#rows.splice(this.#findPlace(row.id), 0, row);
  }

  get(id: number): T | undefined {
    const row = this.#rows[this.#findPlace(id)];
    return row?.id === id ? row : undefined;
  }

  delete(id: number): void {
    if (this.get(id)) this.#rows.splice(this.#findPlace(id), 1);
  }

  /** Yields the rows whose id is larger than `afterId`. */
  *after(afterId: number): Generator<T, void, undefined> {
    for (let place = this.#findPlace(afterId + 1); place < this.#rows.length; place++)
      yield this.#rows[place] as T;
  }

  [Symbol.iterator](): Generator<T, void, undefined> {
    return this.after(0);
  }

  /** Returns the rows that pass a test. */
  filter(test: (row: T) => boolean): T[] {
    return this.#rows.filter(test);
  }

  /** Returns the last rows, newest first. */
  latest(count: number): T[] {
    return this.#rows.slice(-count).reverse();
  }

  /** Returns the place of the first row whose id is at least `id`. */
  #findPlace(id: number): number {
    let [low, high] = [0, this.#rows.length];
    if ((this.#rows.at(-1)?.id ?? 0) < id) return high;

    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#rows[middle]?.id ?? 0) < id) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
