import { type HasId, SortedRows } from './sorted-rows.ts';

type Key = string | number;

/** One condition of a list: where its rows are found, and whether a row found elsewhere meets it. */
export interface Filter<T extends HasId> {
  /** Together they hold every row that meets the condition; null where no index serves it. */
  readonly sources: readonly SortedRows<T>[] | null;
  readonly test: (row: T) => boolean;
}

/** Rows to be listed in ascending order of id. */
export interface Selection<T extends HasId> {
  readonly sources: readonly SortedRows<T>[];
  readonly tests: readonly Filter<T>['test'][];
}

/** What a list operation can show, with an index for each condition that it is asked by. */
export class Listing<T extends HasId, Name extends string> {
  readonly all = new SortedRows<T>();
  readonly #keysOf: Readonly<Record<Name, (row: T) => Key | null>>;
  readonly #indexes: ReadonlyMap<Name, Map<Key, SortedRows<T>>>;

  /** @param keysOf the key of a row in each index; null where it has none */
  constructor(keysOf: Readonly<Record<Name, (row: T) => Key | null>>) {
    this.#keysOf = keysOf;
    this.#indexes = new Map((Object.keys(keysOf) as Name[]).map((name) => [name, new Map()]));
  }

  add(row: T): void {
    this.all.add(row);
    for (const [name, index] of this.#indexes) {
      const key = this.#keysOf[name](row);
      if (key === null) continue;
      const rows = index.get(key);
      if (rows === undefined) index.set(key, SortedRows.of([row]));
      else rows.add(row);
    }
  }

  delete(row: T): void {
    if (!this.all.delete(row.id)) return;
    for (const [name, index] of this.#indexes) {
      const key = this.#keysOf[name](row);
      const rows = key === null ? undefined : index.get(key);
      rows?.delete(row.id);
      if (key !== null && rows?.size === 0) index.delete(key);
    }
  }

  /** Changes a row and keeps the indexes true. A row that is not listed is changed all the same. */
  change(row: T, apply: () => void): void {
    const listed = this.all.get(row.id) === row;
    if (listed) this.delete(row);
    try {
      apply();
    } finally {
      if (listed) this.add(row);
    }
  }

  /** Rows of one key. */
  of(name: Name, key: Key): SortedRows<T> {
    return this.#indexes.get(name)?.get(key) ?? new SortedRows<T>();
  }

  /** Rows whose key is one of `keys`. */
  where(name: Name, keys: Iterable<Key>): Filter<T> {
    const wanted = new Set(keys);
    const keyOf = this.#keysOf[name];
    return {
      sources: [...wanted].map((key) => this.of(name, key)),
      test: (row) => wanted.has(keyOf(row) ?? Number.NaN),
    };
  }

  /** Rows whose key is a number between two others, both exclusive; null is no bound. */
  between(name: Name, above: number | null, below: number | null): Filter<T> {
    const within = (key: Key | null) =>
      typeof key === 'number' && (above === null || key > above) && (below === null || key < below);
    const keyOf = this.#keysOf[name];
    return {
      sources: [...(this.#indexes.get(name) ?? [])].filter(([key]) => within(key)).map(([, rows]) => rows),
      test: (row) => within(keyOf(row)),
    };
  }

  /** All rows that meet every condition, taken from where the fewest have to be looked at. */
  select(filters: readonly Filter<T>[]): Selection<T> {
    let [sources, tests, least]: [Selection<T>['sources'], readonly Filter<T>[], number] = [
      [this.all],
      filters,
      this.all.size,
    ];
    for (const filter of filters) {
      if (filter.sources === null || sizeOf(filter.sources) > least) continue;
      sources = filter.sources;
      tests = filters.filter((other) => other !== filter);
      least = sizeOf(sources);
    }
    return { sources, tests: tests.map(({ test }) => test) };
  }
}

/** Rows of a selection with a larger id than `afterId`, in ascending order. */
export function* rowsAfter<T extends HasId>({ sources, tests }: Selection<T>, afterId: number): Generator<T> {
  for (const row of merge(sources.map((source) => source.after(afterId)))) {
    if (tests.every((test) => test(row))) yield row;
  }
}

/** Rows of a selection from a position on. Where further tests have to be met, those before it are looked at. */
export function* rowsFrom<T extends HasId>(selection: Selection<T>, position: number): Generator<T> {
  if (selection.tests.length === 0) {
    yield* rowsAfter(selection, idBefore(selection.sources, position));
    return;
  }
  let skip = position;
  for (const row of rowsAfter(selection, 0)) if (skip-- <= 0) yield row;
}

/** The largest id after which no more than `position` rows have gone by, found by halving. */
function idBefore(sources: readonly SortedRows<HasId>[], position: number): number {
  let [low, high] = [0, Math.max(0, ...sources.map(({ lastId }) => lastId))];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    const passed = sources.reduce((sum, source) => sum + source.rank(middle), 0);
    if (passed <= position) low = middle;
    else high = middle - 1;
  }
  return low;
}

function sizeOf(sources: readonly SortedRows<HasId>[]): number {
  return sources.reduce((sum, { size }) => sum + size, 0);
}

/** Several ascending sequences as one. */
function* merge<T extends HasId>(sequences: readonly Generator<T>[]): Generator<T> {
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
