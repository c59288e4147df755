import { hourMs } from '../../core/time.ts';
import type { ClaimedRow } from '../../erp/outbox/claim-rows.ts';
import type { SentRow } from '../../erp/outbox/push-database.ts';

/** Minimum number of rows that are remembered. */
const minRows = 1_000;
/**
 * A row is remembered at least this long, however many are sent after it: they may have been claimed before it, and
 * waited for a slot.
 */
const keptMs = 10_000;
/** A row is forgotten after this time: a standby does not lag that long, and old rows may be deleted by retention. */
const maxAgeMs = hourMs;

/**
 * Remembers the rows that this process has sent last. After a failover they show whether the new primary has lost
 * something: Postgres loses the newest commits first.
 */
export class RecentSends {
  readonly #maxRows: number;
  readonly #rows = new Map<string, SentRow & { readonly sentAtMs: number }>();

  /**
   * @param concurrency number of rows that this process sends at the same time; the order of their commits is not known
   */
  constructor(concurrency: number) {
    this.#maxRows = Math.max(minRows, concurrency);
  }

  get rows(): readonly SentRow[] {
    const earliestMs = performance.now() - maxAgeMs;
    return [...this.#rows.values()].filter(({ sentAtMs }) => sentAtMs > earliestMs);
  }

  /** Forgets all rows. Call it when an operator has accepted another database. */
  clear(): void {
    this.#rows.clear();
  }

  /** Forgets a row that the service certainly did not carry out, because it may be sent again. */
  forget({ id, claimNo }: Pick<ClaimedRow, 'id' | 'claimNo'>): void {
    this.#rows.delete(`${id} ${claimNo}`);
  }

  /** Remembers a row whose request may be written from now on. */
  note({ id, claimNo, attempts }: ClaimedRow): void {
    const nowMs = performance.now();
    this.#rows.set(`${id} ${claimNo}`, { id, claimNo, attempts, sentAtMs: nowMs });
    for (const [key, { sentAtMs }] of this.#rows) {
      if (this.#rows.size <= this.#maxRows || sentAtMs > nowMs - keptMs) break;
      this.#rows.delete(key);
    }
  }
}
