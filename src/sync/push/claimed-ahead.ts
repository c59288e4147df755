import { notifyPushers } from '../../erp/connection/notify.ts';
import type { Database } from '../../erp/connection/pool.ts';
import type { ClaimedRow } from '../../erp/outbox/claim.ts';
import { returnClaims } from '../../erp/outbox/held-claims.ts';

/**
 * Rows are claimed ahead for about this many milliseconds of sending: other workers may have free slots for the rest.
 */
const aheadMs = 100;
/**
 * Maximum number of rows that are claimed ahead, for each slot. After a crash they have to be looked up, 100 in one
 * request.
 */
const aheadPerSlot = 3;
/** Minimum of this maximum for all slots together. */
const minAhead = 8;
/** Weight of one attempt in the moving average of durations. */
const weight = 0.1;

/** A claimed row that waits for a slot. `claimedAtMs` is when its claim was requested, by performance.now(). */
export interface WaitingRow {
  readonly row: ClaimedRow;
  readonly claimedAtMs: number;
}

/** Rows that were claimed before a slot was free, so that no slot has to wait for a claim. */
export class ClaimedAhead {
  readonly #db: Database;
  readonly #slots: number;
  #waiting: WaitingRow[] = [];
  #requestMs = Number.POSITIVE_INFINITY;

  constructor(db: Database, slots: number) {
    this.#db = db;
    this.#slots = slots;
  }

  get rows(): readonly ClaimedRow[] {
    return this.#waiting.map(({ row }) => row);
  }

  /** Adds the duration of an attempt that asked the service to the average. */
  noteRequest(ms: number): void {
    this.#requestMs = this.#requestMs === Number.POSITIVE_INFINITY ? ms : this.#requestMs * (1 - weight) + ms * weight;
  }

  /** Returns how many rows to claim for `free` slots; 0 if enough rows wait already. */
  countWanted(free: number): number {
    const ahead = Math.min(
      Math.max(aheadPerSlot * this.#slots, minAhead),
      Math.floor((aheadMs * this.#slots) / this.#requestMs),
    );
    const waiting = this.#waiting.length;
    return waiting < free || waiting * 4 <= ahead ? Math.max(0, free + ahead - waiting) : 0;
  }

  /**
   * Adds claimed rows.
   * @param isNext true puts them before the rows that already wait
   */
  add(rows: readonly ClaimedRow[], claimedAtMs: number, isNext: boolean): void {
    const added = rows.map((row) => ({ row, claimedAtMs }));
    this.#waiting = isNext ? [...added, ...this.#waiting] : [...this.#waiting, ...added];
  }

  /** Takes the first waiting rows that may be sent, at most `max`. */
  take(max: number, maySend: (row: ClaimedRow) => boolean = () => true): WaitingRow[] {
    const taken: WaitingRow[] = [];
    const left: WaitingRow[] = [];
    for (const waiting of this.#waiting) (taken.length < max && maySend(waiting.row) ? taken : left).push(waiting);
    this.#waiting = left;
    return taken;
  }

  /**
   * Gives back the claims of waiting rows, so that other workers can claim them. They do not count as attempts.
   * @param kind only rows of this kind; empty: all rows
   */
  async giveBack(kind: string): Promise<void> {
    const isOne = (row: ClaimedRow) => kind === '' || row.kind === kind;
    const rows = this.take(this.#waiting.length, isOne).map(({ row }) => row);
    if (rows.length === 0) return;
    await returnClaims(this.#db, rows);
    await notifyPushers(this.#db);
  }
}
