import { toDayNumber } from '../zone.ts';

/** What every row of the store has. */
export interface StoredRow {
  readonly id: number;
}

type IndexKey = string | number;

/**
 * A condition of a list: where its rows are found, and a test for rows that were found elsewhere.
 */
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

  /**
   * @param keyReaders return the key of a row for each index; null if the row is not in that index
   */
  constructor(keyReaders: Readonly<Record<Name, (row: T) => IndexKey | null>>) {
    this.#keyReaders = keyReaders;
    this.#indexes = new Map((Object.keys(keyReaders) as Name[]).map((name) => [name, new Map()]));
  }

  add(row: T): void {
    this.all.add(row);
    for (const name of this.#indexes.keys()) this.#addToIndex(name, row);
  }

  /** Removes rows. Many take hardly longer than one. */
  delete(rows: readonly T[]): void {
    const ids = new Set(rows.map(({ id }) => id));
    if (ids.size === 0) return;
    this.all.deleteAll(ids);
    for (const index of this.#indexes.values())
      for (const [key, indexed] of index) {
        indexed.deleteAll(ids);
        if (indexed.size === 0) index.delete(key);
      }
  }

  /** Changes a row and keeps the indexes correct. Also changes a row that is not listed. */
  change(row: T, apply: () => void): void {
    if (this.all.get(row.id) !== row) {
      apply();
      return;
    }
    const before = [...this.#indexes.keys()].map(
      (name) => [name, this.#keyReaders[name](row)] as const,
    );
    try {
      apply();
    } finally {
      for (const [name, key] of before) {
        if (key === this.#keyReaders[name](row)) continue;
        this.#deleteFromIndex(name, row.id, key);
        this.#addToIndex(name, row);
      }
    }
  }

  #addToIndex(name: Name, row: T): void {
    const key = this.#keyReaders[name](row);
    const index = this.#indexes.get(name);
    if (key === null || index === undefined) return;
    const rows = index.get(key) ?? new SortedRows<T>();
    rows.add(row);
    index.set(key, rows);
  }

  #deleteFromIndex(name: Name, id: number, key: IndexKey | null): void {
    const index = this.#indexes.get(name);
    const rows = key === null ? undefined : index?.get(key);
    rows?.delete(id);
    if (key !== null && rows?.size === 0) index?.delete(key);
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

  /**
   * Returns the filter for rows whose numeric key lies between two bounds, both exclusive. Null
   * means no bound.
   */
  filterByRange(name: Name, above: number | null, below: number | null): Filter<T> {
    const isWithin = (key: IndexKey | null) =>
      typeof key === 'number' && (above === null || key > above) && (below === null || key < below);
    const readKey = this.#keyReaders[name];
    return {
      sources: [...(this.#indexes.get(name) ?? [])]
        .filter(([key]) => isWithin(key))
        .map(([, rows]) => rows),
      test: (row) => isWithin(readKey(row)),
    };
  }

  /**
   * Returns the filter for rows whose day lies between two days YYYY-MM-DD, both exclusive; none if
   * neither is given.
   */
  filterByDays(name: Name, after: string | undefined, before: string | undefined): Filter<T>[] {
    if (after === undefined && before === undefined) return [];
    return [
      this.filterByRange(
        name,
        after ? toDayNumber(after) : null,
        before ? toDayNumber(before) : null,
      ),
    ];
  }

  /** Selects the rows that pass all filters. Uses the filter with the fewest rows as the source. */
  select(filters: readonly Filter<T>[]): Selection<T> {
    const [fewest] = filters.toSorted((left, right) => countRows(left) - countRows(right));
    const others = filters.filter((filter) => filter !== fewest);
    return { sources: fewest?.sources ?? [this.all], tests: others.map(({ test }) => test) };
  }
}

const countRows = ({ sources }: { readonly sources: readonly { readonly size: number }[] }) =>
  sources.reduce((sum, { size }) => sum + size, 0);

/** Yields the rows of a selection whose id is larger than `afterId`, in ascending order. */
export function* readRowsAfter<T extends StoredRow>(
  { sources, tests }: Selection<T>,
  afterId: number,
): Generator<T> {
  for (const row of mergeRows(sources.map((source) => source.after(afterId)))) {
    if (tests.every((test) => test(row))) yield row;
  }
}

/**
 * Yields the rows of a selection from a position on. Reads all rows before the position, unless it
 * is a whole list.
 */
export function* readRowsFrom<T extends StoredRow>(
  selection: Selection<T>,
  position: number,
): Generator<T> {
  const { sources, tests } = selection;
  const [only] = sources;
  if (only !== undefined && sources.length === 1 && tests.length === 0) {
    yield* only.from(position);
  } else yield* readRowsAfter(selection, 0).drop(position);
}

function* mergeRows<T extends StoredRow>(sequences: readonly Generator<T>[]): Generator<T> {
  const heads = sequences.map((sequence) => ({ sequence, head: sequence.next() }));
  for (;;) {
    let least: (typeof heads)[number] | undefined;
    for (const candidate of heads) {
      if (candidate.head.done) continue;
      if (least === undefined || least.head.done || candidate.head.value.id < least.head.value.id)
        least = candidate;
    }
    if (least === undefined || least.head.done) return;
    yield least.head.value;
    least.head = least.sequence.next();
  }
}

/**
 * Rows in ascending order of id. Most rows are added at the end and changed near it, which is fast
 * in a plain array.
 */
export class SortedRows<T extends StoredRow> {
  #rows: T[] = [];

  static fromRows<T extends StoredRow>(rows: Iterable<T>): SortedRows<T> {
    const sorted = new SortedRows<T>();
    for (const row of rows) sorted.add(row);
    return sorted;
  }

  get size(): number {
    return this.#rows.length;
  }

  /** Adds a row. Replaces the row with the same id. */
  add(row: T): void {
    const last = this.#rows.at(-1);
    if (last === undefined || last.id < row.id) this.#rows.push(row);
    else this.#rows.splice(this.#findPlace(row.id), this.get(row.id) === undefined ? 0 : 1, row);
  }

  get(id: number): T | undefined {
    const row = this.#rows[this.#findPlace(id)];
    return row?.id === id ? row : undefined;
  }

  delete(id: number): void {
    if (this.get(id) !== undefined) this.#rows.splice(this.#findPlace(id), 1);
  }

  deleteAll(ids: ReadonlySet<number>): void {
    this.#rows = this.#rows.filter(({ id }) => !ids.has(id));
  }

  /** Yields the rows whose id is larger than `afterId`. */
  after(afterId: number): Generator<T, void, undefined> {
    return this.from(this.#findPlace(afterId + 1));
  }

  /** Yields the rows from a position on. Positions count from 0. */
  *from(position: number): Generator<T, void, undefined> {
    for (let place = position; place < this.#rows.length; place++) yield this.#rows[place] as T;
  }

  [Symbol.iterator](): Generator<T, void, undefined> {
    return this.from(0);
  }

  /** Returns the last rows, newest first. */
  latest(count: number): T[] {
    return this.#rows.slice(-count).reverse();
  }

  /** Returns the place of the first row whose id is at least `id`. */
  #findPlace(id: number): number {
    let [low, high] = [0, this.#rows.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#rows[middle]?.id ?? 0) < id) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
