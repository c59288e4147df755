import type { StoredRow } from './store/sorted-rows.ts';

/** How long writes are kept. Must exceed the largest `lagMs` of a fault. */
const keepWritesMs = 15 * 60_000;
const maxWrites = 100_000;
const maxWritesPerRow = 50;

interface Write {
  readonly atMs: number;
  /** A copy of the row before the write; null if the write created the row. */
  readonly before: StoredRow | null;
}

/**
 * Decides which rows of a client are visible, and in which version. It keeps the recent writes of the client, so that
 * lists and searches can lag behind them, and the rows that are hidden from everybody for a while. Writes are timed in
 * real time, because a caller waits for a lag in real time.
 */
export class ListVisibility {
  readonly #writes = new Map<string, Write[]>();
  readonly #hiddenUntilMs = new Map<string, number>();

  /**
   * Records a write. Call it before a row is changed, or after a row was created.
   * @param before the row as it is before the change; null if it was created
   */
  addWrite(type: string, id: number, before: StoredRow | null): void {
    const key = `${type} ${id}`;
    const nowMs = performance.now();
    const writes = [
      ...(this.#writes.get(key) ?? []).slice(-maxWritesPerRow),
      { atMs: nowMs, before: before && structuredClone(before) },
    ];
    // Set again at the end, so that the map lists the oldest writes first.
    this.#writes.delete(key);
    this.#writes.set(
      key,
      writes.filter(({ atMs }) => atMs > nowMs - keepWritesMs),
    );
    this.#dropOldWrites(nowMs);
  }

  /** Drops rows whose last write is too old, and the oldest rows if there are too many. */
  #dropOldWrites(nowMs: number): void {
    for (const [key, writes] of this.#writes) {
      const isOld = (writes.at(-1)?.atMs ?? 0) <= nowMs - keepWritesMs;
      if (!isOld && this.#writes.size <= maxWrites) return;
      this.#writes.delete(key);
    }
  }

  /** The hidden rows, as type and id, each with the virtual time at which it becomes visible again. */
  get hidden(): readonly (readonly [string, number])[] {
    return [...this.#hiddenUntilMs];
  }

  /** Hides the rows that another `ListVisibility` had hidden. */
  restore(hidden: readonly (readonly [string, number])[]): void {
    for (const [key, untilMs] of hidden) this.#hiddenUntilMs.set(key, untilMs);
  }

  /**
   * Hides a row from everybody.
   * @param untilMs the virtual time at which the row becomes visible again
   */
  hide(type: string, id: number, untilMs: number): void {
    this.#hiddenUntilMs.set(`${type} ${id}`, untilMs);
  }

  isHidden(type: string, id: number, nowMs: number): boolean {
    return this.#hiddenUntilMs.size > 0 && (this.#hiddenUntilMs.get(`${type} ${id}`) ?? 0) > nowMs;
  }

  /**
   * Returns the version of a row that a list shows. Returns null if the list does not show the row.
   * @param nowMs virtual time
   * @param lagMs real milliseconds by which the list lags behind the writes
   */
  selectVersion<T extends StoredRow>(type: string, row: T, nowMs: number, lagMs: number): T | null {
    if (this.isHidden(type, row.id, nowMs)) return null;
    if (lagMs === 0) return row;
    const since = performance.now() - lagMs;
    const first = this.#writes.get(`${type} ${row.id}`)?.find(({ atMs }) => atMs > since);
    return first === undefined ? row : (first.before as T | null);
  }
}
