import { setTimeout as wait } from 'node:timers/promises';
import { pauses } from '../../core/backoff.ts';
import type { Database } from '../../erp/connection/pool.ts';
import { type Lane, releaseLanes } from '../../erp/outbox/lanes.ts';

/**
 * Releases lanes after the transaction that freed them has committed. If an ERP transaction has locked the first row of a
 * lane, it tries again until the row is free: nothing else would make that row due for ten minutes.
 */
export class LaneReleaser {
  readonly #db: Database;
  readonly #signal: AbortSignal;
  readonly #onReleased: () => void;
  readonly #onError: (error: unknown) => void;
  #left = new Map<string, Lane>();
  #retrying = false;

  /**
   * @param signal ends the retries; other workers find the rows when they look for due rows
   * @param onReleased called if rows are due now
   */
  constructor(db: Database, signal: AbortSignal, onReleased: () => void, onError: (error: unknown) => void) {
    this.#db = db;
    this.#signal = signal;
    this.#onReleased = onReleased;
    this.#onError = onError;
  }

  /** Makes the first row of each lane due. It never fails and never waits for a lock. */
  async release(lanes: readonly Lane[]): Promise<void> {
    try {
      const { released, locked } = await releaseLanes(this.#db, lanes);
      this.#keep(locked);
      if (released > 0) this.#onReleased();
    } catch (error) {
      this.#keep(lanes);
      this.#onError(error);
    }
    if (this.#left.size > 0) void this.#retry();
  }

  #keep(lanes: readonly Lane[]): void {
    for (const lane of lanes) this.#left.set(JSON.stringify(lane), lane);
  }

  async #retry(): Promise<void> {
    if (this.#retrying) return;
    this.#retrying = true;
    while (this.#left.size > 0 && !this.#signal.aborted) {
      // The signal ends the wait; the condition of the loop checks it.
      await wait(pauses.lockedLane.firstMs, undefined, { ref: false, signal: this.#signal }).catch(() => undefined);
      const lanes = [...this.#left.values()];
      this.#left = new Map();
      await this.release(lanes);
    }
    this.#retrying = false;
  }
}
