import { toDayNumber } from '../zone.ts';

type IndexKey = string | number;

/** A condition of a list: where its rows are found, and a test for rows that were found elsewhere. */
export interface Filter<T extends StoredRow> {
  /** Together these hold every row that meets the condition. */
  readonly sources: readonly SortedRows<T>[];
  readonly test: (row: T) => boolean;
}

/** The rows of a list request: sources to read from, and tests that each row must pass. */
export interface Selection<T extends StoredRow> {
  readonly sources: readonly SortedRows<T>[];
  readonly tests: readonly Filter<T>['test'][];
}

/** The rows that a list operation can show, with an index for each of its conditions. */
export class Listing<T extends StoredRow, Name extends string> {
  readonly all = new SortedRows<T>();
  readonly #keyReaders: Readonly<Record<Name, (row: T) => IndexKey | null>>;
  readonly #indexes: ReadonlyMap<Name, Map<IndexKey, SortedRows<T>>>;

  /** @param keyReaders return the key of a row for each index; null if the row is not in that index */
  constructor(keyReaders: Readonly<Record<Name, (row: T) => IndexKey | null>>) {
    this.#keyReaders = keyReaders;
    this.#indexes = new Map((Object.keys(keyReaders) as Name[]).map((name) => [name, new Map()]));
  }

  add(row: T): void {
    this.all.add(row);
    for (const [name, index] of this.#indexes) {
      const key = this.#keyReaders[name](row);
      if (key === null) continue;
      const rows = index.get(key);
      if (rows === undefined) index.set(key, SortedRows.fromRows([row]));
      else rows.add(row);
    }
  }

  delete(row: T): void {
    if (!this.all.delete(row.id)) return;
    for (const [name, index] of this.#indexes) {
      const key = this.#keyReaders[name](row);
      const rows = key === null ? undefined : index.get(key);
      rows?.delete(row.id);
      if (key !== null && rows?.size === 0) index.delete(key);
    }
  }

  /** Changes a row and keeps the indexes correct. Also changes a row that is not listed. */
  change(row: T, apply: () => void): void {
    const isListed = this.all.get(row.id) === row;
    if (isListed) this.delete(row);
    try {
      apply();
    } finally {
      if (isListed) this.add(row);
    }
  }

  /** Returns the rows with a key. */
  findRows(name: Name, key: IndexKey): SortedRows<T> {
    return this.#indexes.get(name)?.get(key) ?? new SortedRows<T>();
  }

  /** Returns the filter for rows whose key is one of `keys`; none if `keys` is absent. */
  filterByKeys(name: Name, keys: Iterable<IndexKey> | undefined): Filter<T>[] {
    if (keys === undefined) return [];
    const wanted = new Set(keys);
    const readKey = this.#keyReaders[name];
    const sources = [...wanted].map((key) => this.findRows(name, key));
    return [{ sources, test: (row) => wanted.has(readKey(row) ?? Number.NaN) }];
  }

  /** Returns the filter for rows whose numeric key lies between two bounds, both exclusive. Null means no bound. */
  filterByRange(name: Name, above: number | null, below: number | null): Filter<T> {
    const isWithin = (key: IndexKey | null) =>
      typeof key === 'number' && (above === null || key > above) && (below === null || key < below);
    const readKey = this.#keyReaders[name];
    return {
      sources: [...(this.#indexes.get(name) ?? [])].filter(([key]) => isWithin(key)).map(([, rows]) => rows),
      test: (row) => isWithin(readKey(row)),
    };
  }

  /** Returns the filter for rows whose day lies between two days YYYY-MM-DD, both exclusive; none if neither is given. */
  filterByDays(name: Name, after: string | undefined, before: string | undefined): Filter<T>[] {
    if (after === undefined && before === undefined) return [];
    return [this.filterByRange(name, after ? toDayNumber(after) : null, before ? toDayNumber(before) : null)];
  }

  /** Selects the rows that pass all filters. Uses the filter with the fewest rows as the source. */
  select(filters: readonly Filter<T>[]): Selection<T> {
    let [sources, tests, least]: [Selection<T>['sources'], readonly Filter<T>[], number] = [
      [this.all],
      filters,
      this.all.size,
    ];
    for (const filter of filters) {
      if (countRows(filter.sources) > least) continue;
      sources = filter.sources;
      tests = filters.filter((other) => other !== filter);
      least = countRows(sources);
    }
    return { sources, tests: tests.map(({ test }) => test) };
  }
}

/** Yields the rows of a selection whose id is larger than `afterId`, in ascending order. */
export function* readRowsAfter<T extends StoredRow>({ sources, tests }: Selection<T>, afterId: number): Generator<T> {
  for (const row of mergeRows(sources.map((source) => source.after(afterId)))) {
    if (tests.every((test) => test(row))) yield row;
  }
}

/** Yields the rows of a selection from a position on. If there are tests, it reads all rows before the position too. */
export function* readRowsFrom<T extends StoredRow>(selection: Selection<T>, position: number): Generator<T> {
  if (selection.tests.length === 0) {
    yield* readRowsAfter(selection, findIdBefore(selection.sources, position));
    return;
  }
  let skip = position;
  for (const row of readRowsAfter(selection, 0)) if (skip-- <= 0) yield row;
}

/** Finds the largest id up to which there are at most `position` rows. Uses a binary search. */
function findIdBefore(sources: readonly SortedRows<StoredRow>[], position: number): number {
  let [low, high] = [0, Math.max(0, ...sources.map(({ lastId }) => lastId))];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    const passed = sources.reduce((sum, source) => sum + source.countUpTo(middle), 0);
    if (passed <= position) low = middle;
    else high = middle - 1;
  }
  return low;
}

function countRows(sources: readonly SortedRows<StoredRow>[]): number {
  return sources.reduce((sum, { size }) => sum + size, 0);
}

function* mergeRows<T extends StoredRow>(sequences: readonly Generator<T>[]): Generator<T> {
  const [only] = sequences;
  if (only !== undefined && sequences.length === 1) {
    yield* only;
    return;
  }
  const heads = sequences.map((sequence) => ({ sequence, head: sequence.next() }));
  for (;;) {
    let least: (typeof heads)[number] | undefined;
    for (const candidate of heads) {
      if (candidate.head.done) continue;
      if (least === undefined || least.head.done || candidate.head.value.id < least.head.value.id) least = candidate;
    }
    if (least === undefined || least.head.done) return;
    yield least.head.value;
    least.head = least.sequence.next();
  }
}

/** What every row of the store has. */
export interface StoredRow {
  readonly id: number;
}

const bucketSize = 512;

/** Rows in ascending order of id, in buckets: adding, removing and finding is fast even with a million rows. */
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

  /** Returns the index of the first bucket whose last id is at least `id`, or the number of buckets. */
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

function findPlace(bucket: readonly StoredRow[], id: number): number {
  let [low, high] = [0, bucket.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((bucket[middle]?.id ?? 0) < id) low = middle + 1;
    else high = middle;
  }
  return low;
}
