import { AsyncLocalStorage } from 'node:async_hooks';
import { setTimeout as wait } from 'node:timers/promises';
import { pauses } from '../../core/backoff.ts';
import type { Settlement } from '../../erp/outbox/settle-rows.ts';
import { LaneReleaser } from './lane-releaser.ts';
import type { PushDeps, PushOutcome } from './send-row.ts';
import { settleOutcomes } from './settle-outcomes.ts';

/**
 * Maximum number of answered but unsettled rows. It keeps the service busy while the database commits. After a crash
 * they have to be looked up, 100 in one request.
 */
const maxUnsettled = 256;

/** Events of the settler. */
export interface SettleEvents {
  /** Called for each attempt or look-up that settled a row. */
  readonly onSettled: (settlement: Settlement, kind: string) => void;
  readonly onError: (task: string, error: unknown) => void;
}

/** An outcome that waits to be settled. */
interface Answered {
  readonly outcome: PushOutcome;
  readonly kind: string;
  readonly tried: () => void;
  readonly settled: () => void;
  /** Runs a function within the span of the attempt, although other attempts are settled with it. */
  readonly inSpan: (run: () => void) => void;
}

/** Settles the outcomes of one client: all that were answered since its last commit, in one transaction. */
export class Settler {
  readonly #deps: PushDeps;
  readonly #signal: AbortSignal;
  readonly #events: SettleEvents;
  readonly #onReleased: () => void;
  readonly #lanes: LaneReleaser;
  #answered: Answered[] = [];
  #unsettled = 0;
  #isRunning = false;

  /**
   * @param signal ends the retries while the database does not answer
   * @param onReleased called if the next rows of lanes are due now
   */
  constructor(deps: PushDeps, signal: AbortSignal, events: SettleEvents, onReleased: () => void) {
    this.#deps = deps;
    this.#signal = signal;
    this.#events = events;
    this.#onReleased = onReleased;
    this.#lanes = new LaneReleaser(deps.db, signal, onReleased, (error) => events.onError('release', error));
  }

  /** False if no further row may be sent before some are settled. */
  get hasRoom(): boolean {
    return this.#unsettled < maxUnsettled;
  }

  /**
   * Settles an outcome.
   * @returns `tried` resolves when the outcome is stored, or when its row is locked by somebody else; `settled`
   * resolves when the outcome is stored
   */
  settle(outcome: PushOutcome, kind: string): { readonly tried: Promise<void>; readonly settled: Promise<void> } {
    const [tried, settled] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    this.#unsettled++;
    this.#answered.push({
      outcome,
      kind,
      tried: tried.resolve,
      settled: () => {
        this.#unsettled--;
        settled.resolve();
      },
      inSpan: AsyncLocalStorage.snapshot(),
    });
    void this.#run();
    return { tried: tried.promise, settled: settled.promise };
  }

  async #run(): Promise<void> {
    if (this.#isRunning) return;
    this.#isRunning = true;
    while (this.#answered.length > 0) {
      const batch = this.#answered;
      this.#answered = [];
      await this.#settleBatch(batch);
    }
    this.#isRunning = false;
  }

  /** Settles a batch. While the database does not answer, it tries again: an outcome is never given up. */
  async #settleBatch(batch: readonly Answered[]): Promise<void> {
    for (;;) {
      try {
        const result = await settleOutcomes(
          this.#deps,
          batch.map(({ outcome }) => outcome),
        );
        this.#report(batch, new Set(result.settled.map(({ id }) => id)));
        if (result.released > 0) this.#onReleased();
        // The next transaction need not wait for the lanes.
        void this.#lanes.release(result.freed).then(() => this.#conclude(batch, result.locked));
        return;
      } catch (error) {
        this.#events.onError('settle', error);
      }
      // If the process has to end, other workers find the unsettled rows when the claims expire.
      if (this.#signal.aborted) return this.#conclude(batch, new Set());
      await this.#pause(pauses.settlement.firstMs);
    }
  }

  #report(batch: readonly Answered[], settled: ReadonlySet<number>): void {
    for (const { outcome, kind, inSpan } of batch)
      if (settled.has(outcome.settlement.id)) inSpan(() => this.#events.onSettled(outcome.settlement, kind));
  }

  /** Ends the outcomes of a batch. Those whose rows are locked are settled with a later batch. */
  #conclude(batch: readonly Answered[], locked: ReadonlySet<number>): void {
    const left = batch.filter(({ outcome }) => locked.has(outcome.settlement.id));
    for (const answered of batch) {
      answered.tried();
      if (!left.includes(answered)) answered.settled();
    }
    if (left.length > 0) void this.#settleLater(left);
  }

  async #settleLater(left: readonly Answered[]): Promise<void> {
    await this.#pause(pauses.lockedRow.firstMs);
    if (this.#signal.aborted) {
      for (const { settled } of left) settled();
      return;
    }
    this.#answered.push(...left);
    void this.#run();
  }

  async #pause(ms: number): Promise<void> {
    await wait(ms, undefined, { signal: this.#signal }).catch(() => undefined);
  }
}
