import { notifyPushers } from '../../erp/connection/notify.ts';
import type { Database } from '../../erp/connection/pool.ts';
import type { ClaimedRow } from '../../erp/outbox/claimed-row.ts';
import { returnClaims } from '../../erp/outbox/held-claims.ts';

/**
 * Rows are claimed ahead for about this many milliseconds of sending: other workers may have free slots for the rest.
 */
const aheadMs = 250;
/**
 * Maximum number of rows that are claimed ahead, whatever the number of slots. After a crash they have to be looked up,
 * 100 in one request.
 */
const maxAhead = 256;
/** Maximum number of rows that are claimed ahead for each slot, if that is more. */
const aheadPerSlot = 3;
/** Rows that would wait longer than this many milliseconds are given back, because the service has become slow. */
const maxWaitMs = 2_000;
/** Minimum number of rows that are not given back because of that. */
const minKept = 8;
/** Maximum characters of payloads that wait. Above it, rows are claimed only for free slots. */
const maxWaitingLength = 8 * 1024 * 1024;
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

  get #waitingLength(): number {
    return this.#waiting.reduce((sum, { row }) => sum + row.payload.length, 0);
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
    const waiting = this.#waiting.length;
    const ahead = Math.min(
      Math.max(aheadPerSlot * this.#slots, maxAhead),
      Math.floor((aheadMs * this.#slots) / this.#requestMs),
      this.#waitingLength > maxWaitingLength ? waiting : Number.POSITIVE_INFINITY,
    );
    return waiting < free || waiting * 2 <= ahead ? Math.max(0, free + ahead - waiting) : 0;
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
    for (let index = 0; index < this.#waiting.length && taken.length < max; ) {
      const waiting = this.#waiting[index] as WaitingRow;
      if (!maySend(waiting.row)) index++;
      else taken.push(...this.#waiting.splice(index, 1));
    }
    return taken;
  }

  /**
   * Gives back the claims of waiting rows, so that other workers can claim them. They do not count as attempts.
   * @param kind only rows of this kind; empty: all rows
   */
  async giveBack(kind: string): Promise<void> {
    const isOne = (row: ClaimedRow) => kind === '' || row.kind === kind;
    await this.#return(this.take(this.#waiting.length, isOne));
  }

  /** Number of waiting rows whose turn would come too late. */
  get excess(): number {
    const inTime = Math.floor((maxWaitMs * this.#slots) / this.#requestMs);
    return Math.max(0, this.#waiting.length - Math.max(aheadPerSlot * this.#slots, minKept, inTime));
  }

  /** Gives back the claims of the rows whose turn would come too late. */
  async giveBackExcess(): Promise<void> {
    const first = this.#waiting.length - this.excess;
    const late = this.#waiting.slice(first);
    this.#waiting = this.#waiting.slice(0, first);
    await this.#return(late);
  }

  async #return(waiting: readonly WaitingRow[]): Promise<void> {
    const rows = waiting.map(({ row }) => row);
    if (rows.length === 0) return;
    await returnClaims(this.#db, rows);
    await notifyPushers(this.#db);
  }
}
