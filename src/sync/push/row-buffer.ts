import type { Database } from '../../erp/connection/pool.ts';
import type { ClaimedRow } from '../../erp/outbox/claim-rows.ts';
import { largeBytes } from '../../erp/outbox/claim-rows.ts';
import { returnClaims } from '../../erp/outbox/held-claims.ts';

/**
 * Number of rows that wait for each slot. More would wait long at a slow service, while other workers have free slots,
 * and would have to be looked up after a crash.
 */
const waitingPerSlot = 4;
const minWaiting = 8;
const maxWaiting = 256;
/** Maximum bytes of the payloads that a worker holds for a client, besides one large one. */
const maxBytes = 16 * 1024 * 1024;

/** What may be claimed now. */
export interface Room {
  readonly rows: number;
  readonly bytes: number;
  readonly takesLarge: boolean;
}

const isLarge = ({ payloadBytes }: ClaimedRow) => payloadBytes > largeBytes;

/**
 * The claimed rows of a client. Rows wait here for a slot, so that no slot has to wait for a claim. Their number, and
 * the bytes of all rows that are not settled, are bounded.
 */
export class RowBuffer {
  readonly #db: Database;
  readonly #maxWaiting: number;
  #waiting: ClaimedRow[] = [];
  /** All rows that this worker has claimed and not yet settled or returned. */
  readonly #held = new Set<ClaimedRow>();
  #returns = 0;

  constructor(db: Database, slots: number) {
    this.#db = db;
    this.#maxWaiting = Math.min(maxWaiting, Math.max(minWaiting, waitingPerSlot * slots));
  }

  /** The claims that have to be renewed. */
  get held(): readonly ClaimedRow[] {
    return [...this.#held];
  }

  get isEmpty(): boolean {
    return this.#held.size === 0;
  }

  /** Number of rows that wait for a slot. */
  get waiting(): number {
    return this.#waiting.length;
  }

  /** Returns true if rows of this kind (empty: any rows) wait for a slot. */
  hasWaiting(kind: string): boolean {
    return this.#waiting.some((row) => kind === '' || row.kind === kind);
  }

  /** Counts the returns. A claim that was under way during one must not be kept. */
  get returns(): number {
    return this.#returns;
  }

  /** What may be claimed now. No rows unless half of the places are free: one claim should bring many rows. */
  get room(): Room {
    const rows = this.#waiting.length * 2 <= this.#maxWaiting ? this.#maxWaiting - this.#waiting.length : 0;
    let bytes = maxBytes;
    let takesLarge = true;
    for (const row of this.#held) {
      if (isLarge(row)) takesLarge = false;
      else bytes -= row.payloadBytes;
    }
    return { rows, bytes, takesLarge };
  }

  /** Adds claimed rows. */
  add(rows: readonly ClaimedRow[]): void {
    for (const row of rows) this.#held.add(row);
    this.#waiting.push(...rows);
  }

  /** Takes the first waiting row that may be sent; undefined if there is none. */
  take(maySend: (row: ClaimedRow) => boolean): ClaimedRow | undefined {
    const place = this.#waiting.findIndex(maySend);
    return place < 0 ? undefined : this.#waiting.splice(place, 1)[0];
  }

  /** Removes a row that is settled. */
  release(row: ClaimedRow): void {
    this.#held.delete(row);
  }

  /**
   * Gives back the claims of all waiting rows, so that they are claimed again when they may be sent, by any worker. They
   * do not count as attempts.
   * @param kind only rows of this kind; empty: all rows
   */
  async return(kind: string): Promise<void> {
    this.#returns++;
    const isReturned = (row: ClaimedRow) => kind === '' || row.kind === kind;
    const rows = this.#waiting.filter(isReturned);
    if (rows.length === 0) return;
    this.#waiting = this.#waiting.filter((row) => !isReturned(row));
    for (const row of rows) this.#held.delete(row);
    await returnClaims(this.#db, rows);
  }
}
