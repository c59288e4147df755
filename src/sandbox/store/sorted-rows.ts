/** What every row of the store has. */
export interface StoredRow {
  readonly id: number;
}

const bucketSize = 512;

/**
 * Rows in ascending order of id, stored in buckets. Adding, removing and finding a row by id or position is fast even
 * with a million rows.
 */
export class SortedRows<T extends StoredRow> {
  #buckets: T[][] = [];
  #size = 0;

  static fromRows<T extends StoredRow>(rows: Iterable<T>): SortedRows<T> {
    const sorted = new SortedRows<T>();
    for (const row of rows) sorted.add(row);
    return sorted;
  }

  get size(): number {
    return this.#size;
  }

  /** Adds a row. Replaces the row with the same id. */
  add(row: T): void {
    const bucket = this.#buckets.at(-1);
    const last = bucket?.at(-1);
    if (bucket === undefined || last === undefined || last.id < row.id) this.#append(row, bucket);
    else this.#insert(row);
  }

  get(id: number): T | undefined {
    const bucket = this.#buckets[this.#findBucket(id)];
    const row = bucket?.[findPlace(bucket, id)];
    return row?.id === id ? row : undefined;
  }

  delete(id: number): boolean {
    const index = this.#findBucket(id);
    const bucket = this.#buckets[index];
    if (bucket === undefined) return false;
    const place = findPlace(bucket, id);
    if (bucket[place]?.id !== id) return false;
    bucket.splice(place, 1);
    if (bucket.length === 0) this.#buckets.splice(index, 1);
    this.#size--;
    return true;
  }

  /** Yields the rows whose id is larger than `afterId`. */
  *after(afterId: number): Generator<T, void, undefined> {
    const first = this.#findBucket(afterId);
    for (let index = first; index < this.#buckets.length; index++) {
      const bucket = this.#buckets[index] ?? [];
      let place = index === first ? findPlace(bucket, afterId) : 0;
      if (bucket[place]?.id === afterId) place++;
      for (; place < bucket.length; place++) yield bucket[place] as T;
    }
  }

  /** Yields the rows from a position on. Positions count from 0. */
  *from(position: number): Generator<T, void, undefined> {
    let skip = position;
    for (const bucket of this.#buckets) {
      if (skip >= bucket.length) skip -= bucket.length;
      else {
        for (let place = skip; place < bucket.length; place++) yield bucket[place] as T;
        skip = 0;
      }
    }
  }

  /** Counts the rows whose id is at most `id`. */
  countUpTo(id: number): number {
    const last = this.#findBucket(id);
    let countUpTo = 0;
    for (let index = 0; index < last; index++) countUpTo += this.#buckets[index]?.length ?? 0;
    const bucket = this.#buckets[last];
    return bucket === undefined ? countUpTo : countUpTo + findPlace(bucket, id + 1);
  }

  get lastId(): number {
    return this.#buckets.at(-1)?.at(-1)?.id ?? 0;
  }

  [Symbol.iterator](): Generator<T, void, undefined> {
    return this.from(0);
  }

  /** Returns the last rows, newest first. */
  latest(count: number): T[] {
    return [...this.from(Math.max(0, this.#size - count))].reverse();
  }

  #append(row: T, bucket: T[] | undefined): void {
    if (bucket === undefined || bucket.length >= bucketSize) this.#buckets.push([row]);
    else bucket.push(row);
    this.#size++;
  }

  #insert(row: T): void {
    const index = this.#findBucket(row.id);
    const bucket = this.#buckets[index] as T[];
    const place = findPlace(bucket, row.id);
    if (bucket[place]?.id === row.id) {
      bucket[place] = row;
      return;
    }
    bucket.splice(place, 0, row);
    this.#size++;
    if (bucket.length > 2 * bucketSize)
      this.#buckets.splice(index, 1, bucket.slice(0, bucketSize), bucket.slice(bucketSize));
  }

  /**
   * Returns the index of the first bucket whose last id is at least `id`, or the number of buckets if there is none.
   */
  #findBucket(id: number): number {
    let [low, high] = [0, this.#buckets.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#buckets[middle]?.at(-1)?.id ?? 0) < id) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/** Returns the place of the first row in a bucket whose id is at least `id`. */
function findPlace(bucket: readonly StoredRow[], id: number): number {
  let [low, high] = [0, bucket.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((bucket[middle]?.id ?? 0) < id) low = middle + 1;
    else high = middle;
  }
  return low;
}
