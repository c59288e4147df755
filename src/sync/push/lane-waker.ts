import { setTimeout as wait } from 'node:timers/promises';
import { pauses } from '../../core/backoff.ts';
import type { Database } from '../../erp/connection/pool.ts';
import { type Lane, wakeFreeLanes } from '../../erp/outbox/settle-rows.ts';

/**
 * Wakes lanes after the settlement that freed them has committed. If an ERP transaction has locked the first row of a
 * lane, it tries again until the row is free: nothing else would wake that row for ten minutes.
 */
export class LaneWaker {
  readonly #db: Database;
  readonly #signal: AbortSignal;
  readonly #onError: (error: unknown) => void;
  readonly #locked = new Map<string, Lane>();
  #retrying = false;

  /** @param signal ends the retries; other workers find the rows when they look for due rows */
  constructor(db: Database, signal: AbortSignal, onError: (error: unknown) => void) {
    this.#db = db;
    this.#signal = signal;
    this.#onError = onError;
  }

  /** Wakes the first row of each lane. It never fails and never waits for a lock. */
  async wake(lanes: readonly Lane[]): Promise<void> {
    try {
      for (const lane of await wakeFreeLanes(this.#db, lanes)) this.#locked.set(JSON.stringify(lane), lane);
    } catch (error) {
      this.#onError(error);
    }
    if (this.#locked.size > 0) void this.#retry();
  }

  async #retry(): Promise<void> {
    if (this.#retrying) return;
    this.#retrying = true;
    while (this.#locked.size > 0 && !this.#signal.aborted) {
      // The signal ends the wait; the condition of the loop checks it.
      await wait(pauses.lockedLane.firstMs, undefined, { ref: false, signal: this.#signal }).catch(() => undefined);
      const lanes = [...this.#locked.values()];
      this.#locked.clear();
      try {
        for (const lane of await wakeFreeLanes(this.#db, lanes)) this.#locked.set(JSON.stringify(lane), lane);
      } catch (error) {
        for (const lane of lanes) this.#locked.set(JSON.stringify(lane), lane);
        this.#onError(error);
      }
    }
    this.#retrying = false;
  }
}
