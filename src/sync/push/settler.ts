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
  /** Called when rows will be due in this many milliseconds, or may be due now. */
  readonly onDue: (inMs: number) => void;
  readonly onError: (task: string, error: unknown) => void;
}

/** An outcome that waits to be settled. */
interface Answered {
  readonly outcome: PushOutcome;
  readonly kind: string;
  readonly end: () => void;
  /** Runs a function within the span of the attempt, although other attempts are settled with it. */
  readonly inSpan: (run: () => void) => void;
}

/** Settles the outcomes of one client: all that were answered since its last commit, in one transaction. */
export class Settler {
  readonly #deps: PushDeps;
  readonly #signal: AbortSignal;
  readonly #events: SettleEvents;
  readonly #lanes: LaneReleaser;
  #answered: Answered[] = [];
  #unsettled = 0;
  #isRunning = false;

  /**
   * @param signal ends the retries while the database does not answer
   * @param onReleased called if the next rows of lanes are due now, or may be
   */
  constructor(deps: PushDeps, signal: AbortSignal, events: SettleEvents, onReleased: () => void) {
    this.#deps = deps;
    this.#signal = signal;
    this.#events = events;
    this.#lanes = new LaneReleaser(deps.db, signal, onReleased, (error) => events.onError('release', error));
  }

  /** False if no further row may be sent before some are settled. */
  get hasRoom(): boolean {
    return this.#unsettled < maxUnsettled;
  }

  get isIdle(): boolean {
    return this.#unsettled === 0;
  }

  /** Settles an outcome, and resolves when it is stored. An outcome whose row somebody has locked waits for it. */
  async settle(outcome: PushOutcome, kind: string): Promise<void> {
    this.#unsettled++;
    const { promise, resolve: end } = Promise.withResolvers<void>();
    this.#answered.push({ outcome, kind, end, inSpan: AsyncLocalStorage.snapshot() });
    void this.#run();
    await promise;
    this.#unsettled--;
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
    const outcomes = batch.map(({ outcome }) => outcome);
    do {
      try {
        const { settled, locked, freed } = await settleOutcomes(this.#deps, outcomes);
        for (const { outcome, kind, inSpan } of batch)
          if (settled.has(outcome.settlement.id)) inSpan(() => this.#report(outcome.settlement, kind));
        const left = batch.filter(({ outcome }) => locked.has(outcome.settlement.id));
        if (left.length > 0) void this.#settleLater(left);
        // The next transaction need not wait for the lanes.
        void this.#lanes.release(freed).then(() => end(batch.filter((answered) => !left.includes(answered))));
        return;
      } catch (error) {
        this.#events.onError('settle', error);
        await this.#pause(pauses.settlement.firstMs);
      }
    } while (!this.#signal.aborted);
    // Other workers find the unsettled rows when the claims expire.
    end(batch);
  }

  #report(settlement: Settlement, kind: string): void {
    this.#events.onSettled(settlement, kind);
    if (settlement.delayMs !== null) this.#events.onDue(settlement.delayMs);
  }

  async #settleLater(left: readonly Answered[]): Promise<void> {
    await this.#pause(pauses.lockedRow.firstMs);
    if (this.#signal.aborted) return end(left);
    this.#answered.push(...left);
    void this.#run();
  }

  async #pause(ms: number): Promise<void> {
    await wait(ms, undefined, { signal: this.#signal }).catch(() => undefined);
  }
}

function end(batch: readonly Answered[]): void {
  for (const answered of batch) answered.end();
}
