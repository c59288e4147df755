import { toDayNumber } from '../zone.ts';
import { SortedRows, type StoredRow } from './sorted-rows.ts';

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

/** Merges several ascending sequences into one. */
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
