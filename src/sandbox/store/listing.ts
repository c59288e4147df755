import { toDayNumber } from '../zone.ts';

/** What every row has. */
export interface StoredRow {
  readonly id: number;
}

type IndexKey = string | number;
type KeyReader<T> = (row: T) => IndexKey | null;

/** A condition of a list: where its rows are found, and a test for rows found elsewhere. */
export interface Filter<T extends StoredRow> {
  /** Together these hold every row that meets the condition, each row once. */
  readonly sources: readonly SortedRows<T>[];
  readonly test: (row: T) => boolean;
}

/**
 * Rows in ascending order of id. Most rows are added at the end and changed near it, which is fast
 * in a plain array.
 */
export class SortedRows<T extends StoredRow> {
  #rows: T[] = [];

  constructor(rows: Iterable<T> = []) {
    for (const row of rows) this.add(row);
  }

  get size(): number {
    return this.#rows.length;
  }

  /** Adds a row. Replaces the row with the same id. */
  add(row: T): void {
    const place = this.#findPlace(row.id);
    this.#rows.splice(place, this.#rows[place]?.id === row.id ? 1 : 0, row);
  }

  get(id: number): T | undefined {
    const row = this.#rows[this.#findPlace(id)];
    return row?.id === id ? row : undefined;
  }

  /** Deletes rows. Many take hardly longer than one. */
  delete(ids: Iterable<number>): void {
    const deleted = new Set(ids);
    if (deleted.size > 1) this.#rows = this.#rows.filter(({ id }) => !deleted.has(id));
    else for (const id of deleted) if (this.get(id)) this.#rows.splice(this.#findPlace(id), 1);
  }

  /** Yields the rows whose id is larger than `afterId`. */
  *after(afterId: number): Generator<T, void, undefined> {
    for (let place = this.#findPlace(afterId + 1); place < this.#rows.length; place++)
      yield this.#rows[place] as T;
  }

  [Symbol.iterator](): Generator<T, void, undefined> {
    return this.after(0);
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

/** The rows that a list operation can show, with an index for each of its conditions. */
export class Listing<T extends StoredRow, Name extends string> extends SortedRows<T> {
  readonly #keyReaders: Readonly<Record<Name, KeyReader<T>>>;
  readonly #indexes = new Map<Name, Map<IndexKey, SortedRows<T>>>();

  /**
   * @param keyReaders return the key of a row for each index; null if the row is not in that index
   */
  constructor(keyReaders: Readonly<Record<Name, KeyReader<T>>>) {
    super();
    this.#keyReaders = keyReaders;
    for (const name of Object.keys(keyReaders) as Name[]) this.#indexes.set(name, new Map());
  }

  override add(row: T): void {
    super.add(row);
    for (const name of this.#indexes.keys()) this.#addToIndex(name, row);
  }

  override delete(ids: Iterable<number>): void {
    const deleted = new Set(ids);
    super.delete(deleted);
    for (const index of this.#indexes.values())
      for (const rows of index.values()) rows.delete(deleted);
  }

  /** Changes a row and keeps the indexes correct. Also changes a row that is not listed. */
  change(row: T, apply: () => void): void {
    const isListed = this.get(row.id) === row;
    const before = [...this.#indexes].map(
      ([name, index]) => [name, index, this.#keyReaders[name](row)] as const,
    );

    apply();
    if (!isListed) return;

    for (const [name, index, key] of before) {
      if (key === this.#keyReaders[name](row)) continue;
      if (key !== null) index.get(key)?.delete([row.id]);
      this.#addToIndex(name, row);
    }
  }

  #addToIndex(name: Name, row: T): void {
    const key = this.#keyReaders[name](row);
    if (key === null) return;

    const rows = this.findRows(name, key);
    rows.add(row);
    this.#indexes.get(name)?.set(key, rows);
  }

  /** Returns the rows with a key. */
  findRows(name: Name, key: IndexKey): SortedRows<T> {
    return this.#indexes.get(name)?.get(key) ?? new SortedRows<T>();
  }

  /** Returns the filter for rows whose key is one of `keys`. */
  filterByKeys(name: Name, keys: Iterable<IndexKey>): Filter<T> {
    const wanted = new Set(keys);
    const sources = [...wanted].map((key) => this.findRows(name, key));

    return { sources, test: (row) => wanted.has(this.#keyReaders[name](row) ?? Number.NaN) };
  }

  /** Returns the filter for rows whose day lies between two days YYYY-MM-DD, both exclusive. */
  filterByDays(name: Name, after?: string, before?: string): Filter<T> {
    const [above, below] = [
      after ? toDayNumber(after) : Number.NEGATIVE_INFINITY,
      before ? toDayNumber(before) : Number.POSITIVE_INFINITY,
    ];
    const isBetween = (key: IndexKey | null) =>
      typeof key === 'number' && key > above && key < below;
    const index = this.#indexes.get(name) ?? new Map<IndexKey, SortedRows<T>>();
    const found = [...index].filter(([key]) => isBetween(key));

    return {
      sources: found.map(([, rows]) => rows),
      test: (row) => isBetween(this.#keyReaders[name](row)),
    };
  }

  /** Joins filters. Reads the rows of the one that finds the fewest. */
  select(filters: readonly Filter<T>[]): Filter<T> {
    const [fewest = { sources: [this] }] = filters.toSorted(
      (left, right) => countRows(left) - countRows(right),
    );
    return { sources: fewest.sources, test: (row) => filters.every(({ test }) => test(row)) };
  }
}

const countRows = ({ sources }: { readonly sources: readonly { readonly size: number }[] }) =>
  sources.reduce((sum, { size }) => sum + size, 0);

/** Yields the rows that pass a filter and whose id is larger than `afterId`, in ascending order. */
export function* readRows<T extends StoredRow>(
  { sources, test }: Filter<T>,
  afterId = 0,
): Generator<T> {
  const sequences = sources.map((source) => source.after(afterId));
  const heads = sequences.map((sequence) => sequence.next().value);

  for (;;) {
    let least = -1;
    let row: T | undefined;
    for (const [index, head] of heads.entries())
      if (head && (row === undefined || head.id < row.id)) [least, row] = [index, head];

    if (row === undefined) return;
    if (test(row)) yield row;
    heads[least] = sequences[least]?.next().value;
  }
}
