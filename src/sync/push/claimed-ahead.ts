import { notifyPushers } from '../../erp/connection/notify.ts';
import type { Database } from '../../erp/connection/pool.ts';
import type { ClaimedRow } from '../../erp/outbox/claim.ts';
import { returnClaims } from '../../erp/outbox/claims-held.ts';

/** No more rows are claimed ahead than are expected to be sent within this: others may have slots for them. */
const aheadMs = 100;
/** Maximum number of rows that are claimed ahead, for each slot. After a kill they have to be looked up, 100 in a request. */
const aheadPerSlot = 3;
/** The same for all slots together, if there are few. */
const fewest = 8;
/** The weight of one attempt in the average of how long they take. */
const weight = 0.1;

/** A claimed row, and when its claim was asked for by performance.now(). */
export interface Waiting {
  readonly row: ClaimedRow;
  readonly claimedAtMs: number;
}

/** Rows that were claimed before a slot was free for them, so that none has to wait for its claim. */
export class ClaimedAhead {
  readonly #db: Database;
  readonly #slots: number;
  #waiting: Waiting[] = [];
  #requestMs = Number.POSITIVE_INFINITY;

  constructor(db: Database, slots: number) {
    this.#db = db;
    this.#slots = slots;
  }

  get rows(): readonly ClaimedRow[] {
    return this.#waiting.map(({ row }) => row);
  }

  /** Notes how long an attempt took that asked the service. */
  noteRequest(ms: number): void {
    this.#requestMs = this.#requestMs === Number.POSITIVE_INFINITY ? ms : this.#requestMs * (1 - weight) + ms * weight;
  }

  /** How many rows to claim where `free` slots have none; 0 while those that wait last for a while. */
  wanted(free: number): number {
    const ahead = Math.min(
      Math.max(aheadPerSlot * this.#slots, fewest),
      Math.floor((aheadMs * this.#slots) / this.#requestMs),
    );
    const waiting = this.#waiting.length;
    return waiting < free || waiting * 4 <= ahead ? Math.max(0, free + ahead - waiting) : 0;
  }

  /** @param isNext they come before those that wait already */
  add(rows: readonly ClaimedRow[], claimedAtMs: number, isNext: boolean): void {
    const added = rows.map((row) => ({ row, claimedAtMs }));
    this.#waiting = isNext ? [...added, ...this.#waiting] : [...this.#waiting, ...added];
  }

  /** Takes the first waiting rows that may be sent, at most `most`. */
  take(most: number, maySend: (row: ClaimedRow) => boolean = () => true): Waiting[] {
    const taken: Waiting[] = [];
    const left: Waiting[] = [];
    for (const waiting of this.#waiting) (taken.length < most && maySend(waiting.row) ? taken : left).push(waiting);
    this.#waiting = left;
    return taken;
  }

  /**
   * Gives back the claims of waiting rows: other workers may claim them, and none of them counts as an attempt.
   * @param kind of which; empty: all
   */
  async giveBack(kind: string): Promise<void> {
    const isOne = (row: ClaimedRow) => kind === '' || row.kind === kind;
    const rows = this.take(this.#waiting.length, isOne).map(({ row }) => row);
    if (rows.length === 0) return;
    await returnClaims(this.#db, rows);
    await notifyPushers(this.#db);
  }
}
