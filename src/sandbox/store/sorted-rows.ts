export interface HasId {
  readonly id: number;
}

const bucketSize = 512;

/**
 * Rows in ascending order of id, in buckets: a row is added, removed, found by id and reached by position without a look
 * at the others, however many there are.
 */
export class SortedRows<T extends HasId> {
  #buckets: T[][] = [];
  #size = 0;

  static of<T extends HasId>(rows: Iterable<T>): SortedRows<T> {
    const sorted = new SortedRows<T>();
    for (const row of rows) sorted.add(row);
    return sorted;
  }

  get size(): number {
    return this.#size;
  }

  /** Adds a row; one with the same id is replaced. */
  add(row: T): void {
    const bucket = this.#buckets.at(-1);
    const last = bucket?.at(-1);
    if (bucket === undefined || last === undefined || last.id < row.id) this.#append(row, bucket);
    else this.#insert(row);
  }

  get(id: number): T | undefined {
    const bucket = this.#buckets[this.#bucketOf(id)];
    const row = bucket?.[placeIn(bucket, id)];
    return row?.id === id ? row : undefined;
  }

  delete(id: number): boolean {
    const index = this.#bucketOf(id);
    const bucket = this.#buckets[index];
    if (bucket === undefined) return false;
    const place = placeIn(bucket, id);
    if (bucket[place]?.id !== id) return false;
    bucket.splice(place, 1);
    if (bucket.length === 0) this.#buckets.splice(index, 1);
    this.#size--;
    return true;
  }

  /** Rows with a larger id than `afterId`. */
  *after(afterId: number): Generator<T, void, undefined> {
    const first = this.#bucketOf(afterId);
    for (let index = first; index < this.#buckets.length; index++) {
      const bucket = this.#buckets[index] ?? [];
      let place = index === first ? placeIn(bucket, afterId) : 0;
      if (bucket[place]?.id === afterId) place++;
      for (; place < bucket.length; place++) yield bucket[place] as T;
    }
  }

  /** Rows from a position on, counted from 0. */
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

  /** How many rows have an id of at most `id`. */
  rank(id: number): number {
    const last = this.#bucketOf(id);
    let rank = 0;
    for (let index = 0; index < last; index++) rank += this.#buckets[index]?.length ?? 0;
    const bucket = this.#buckets[last];
    return bucket === undefined ? rank : rank + placeIn(bucket, id + 1);
  }

  get lastId(): number {
    return this.#buckets.at(-1)?.at(-1)?.id ?? 0;
  }

  [Symbol.iterator](): Generator<T, void, undefined> {
    return this.from(0);
  }

  /** The last rows, newest first. */
  latest(count: number): T[] {
    return [...this.from(Math.max(0, this.#size - count))].reverse();
  }

  #append(row: T, bucket: T[] | undefined): void {
    if (bucket === undefined || bucket.length >= bucketSize) this.#buckets.push([row]);
    else bucket.push(row);
    this.#size++;
  }

  #insert(row: T): void {
    const index = this.#bucketOf(row.id);
    const bucket = this.#buckets[index] as T[];
    const place = placeIn(bucket, row.id);
    if (bucket[place]?.id === row.id) {
      bucket[place] = row;
      return;
    }
    bucket.splice(place, 0, row);
    this.#size++;
    if (bucket.length > 2 * bucketSize)
      this.#buckets.splice(index, 1, bucket.slice(0, bucketSize), bucket.slice(bucketSize));
  }

  /** Index of the first bucket whose last id is at least `id`; the number of buckets where there is none. */
  #bucketOf(id: number): number {
    let [low, high] = [0, this.#buckets.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#buckets[middle]?.at(-1)?.id ?? 0) < id) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/** Place of the first row in a bucket whose id is at least `id`. */
function placeIn(bucket: readonly HasId[], id: number): number {
  let [low, high] = [0, bucket.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((bucket[middle]?.id ?? 0) < id) low = middle + 1;
    else high = middle;
  }
  return low;
}
