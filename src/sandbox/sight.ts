import type { HasId } from './store/sorted-rows.ts';

/** Longer than any rule lets lists lag. */
const keptMs = 15 * 60_000;
const maxWrites = 100_000;
const writesKept = 50;

interface Write {
  readonly atMs: number;
  /** The row as it was before; null where it did not exist. */
  readonly before: HasId | null;
}

/**
 * What a client has written lately, so that lists and searches can lag behind it, and which rows are kept from everyone
 * for a while. Writes are timed in real time: a lag is what the caller of the service lives through.
 */
export class Sight {
  readonly #writes = new Map<string, Write[]>();
  readonly #hiddenUntilMs = new Map<string, number>();

  /** To be called before a row is changed, or with null when it has been made. */
  wrote(type: string, id: number, before: HasId | null): void {
    const key = `${type} ${id}`;
    const nowMs = performance.now();
    const writes = [
      ...(this.#writes.get(key) ?? []).slice(-writesKept),
      { atMs: nowMs, before: before && structuredClone(before) },
    ];
    // Anew at the end, so that the oldest come first.
    this.#writes.delete(key);
    this.#writes.set(
      key,
      writes.filter(({ atMs }) => atMs > nowMs - keptMs),
    );
    this.#forget(nowMs);
  }

  /** Drops rows whose last write is too long ago to matter, and the oldest where there are too many. */
  #forget(nowMs: number): void {
    for (const [key, writes] of this.#writes) {
      const isOld = (writes.at(-1)?.atMs ?? 0) <= nowMs - keptMs;
      if (!isOld && this.#writes.size <= maxWrites) return;
      this.#writes.delete(key);
    }
  }

  /** Rows hidden so far, with the virtual time until which they are. */
  get hidden(): readonly (readonly [string, number])[] {
    return [...this.#hiddenUntilMs];
  }

  /** Goes on hiding what another hid. */
  restore(hidden: readonly (readonly [string, number])[]): void {
    for (const [key, untilMs] of hidden) this.#hiddenUntilMs.set(key, untilMs);
  }

  /** @param untilMs virtual time */
  hide(type: string, id: number, untilMs: number): void {
    this.#hiddenUntilMs.set(`${type} ${id}`, untilMs);
  }

  isHidden(type: string, id: number, nowMs: number): boolean {
    return this.#hiddenUntilMs.size > 0 && (this.#hiddenUntilMs.get(`${type} ${id}`) ?? 0) > nowMs;
  }

  /** A row as somebody sees it who is `lagMs` behind; null where they do not see it at all. */
  see<T extends HasId>(type: string, row: T, nowMs: number, lagMs: number): T | null {
    if (this.isHidden(type, row.id, nowMs)) return null;
    if (lagMs === 0) return row;
    const since = performance.now() - lagMs;
    const first = this.#writes.get(`${type} ${row.id}`)?.find(({ atMs }) => atMs > since);
    return first === undefined ? row : (first.before as T | null);
  }
}
