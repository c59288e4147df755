import { AsyncLocalStorage } from 'node:async_hooks';
import { setTimeout as wait } from 'node:timers/promises';
import { pauses } from '../../core/backoff.ts';
import type { Settlement } from '../../erp/outbox/settle-rows.ts';
import type { PushDeps, PushOutcome } from './attempt.ts';
import { LaneWaker } from './lane-waker.ts';
import { settleOutcomes, settleUnlocked } from './settle.ts';

/**
 * Milliseconds that done rows wait for others while more rows are being sent: one transaction settles many rows as fast
 * as one.
 */
const gatherMs = 20;

/**
 * Maximum number of answered but unsettled rows, whatever the number of slots. It keeps the service busy while the
 * database commits, and one transaction settles many rows. After a crash they have to be looked up, 100 in one request.
 */
const maxUnsettled = 256;
/** Maximum number of answered but unsettled rows for each slot, if that is more. */
const unsettledPerSlot = 3;

/** Returns how many rows may be answered and not settled. */
export const countMaxUnsettled = (slots: number) => Math.max(slots * unsettledPerSlot, maxUnsettled);

/** Events of the queue. */
export interface SettleEvents {
  /** Called for each attempt or look-up that settled a row. */
  readonly onSettled: (settlement: Settlement, kind: string) => void;
  readonly onError: (task: string, error: unknown) => void;
}

/** An outcome that waits to be settled, with the callbacks of its caller. */
interface QueuedOutcome {
  readonly outcome: PushOutcome;
  readonly kind: string;
  readonly tried: () => void;
  readonly done: () => void;
  /** Runs a function within the span of the attempt, although other attempts are settled with it. */
  readonly inSpan: (run: () => void) => void;
}

/** Settles the outcomes of one client. All outcomes that have arrived are settled in one transaction. */
export class SettleQueue {
  readonly #deps: PushDeps;
  readonly #mayGather: () => boolean;
  readonly #signal: AbortSignal;
  readonly #events: SettleEvents;
  readonly #waker: LaneWaker;
  #toSettle: QueuedOutcome[] = [];
  #isSettling = false;
  #endGathering: () => void = () => undefined;

  /**
   * @param mayGather returns true if more outcomes will arrive soon and nothing has to wait for these
   * @param signal ends the retries while the database does not answer
   */
  constructor(deps: PushDeps, mayGather: () => boolean, signal: AbortSignal, events: SettleEvents) {
    this.#deps = deps;
    this.#mayGather = mayGather;
    this.#signal = signal;
    this.#events = events;
    this.#waker = new LaneWaker(deps.db, signal, (error) => events.onError('wake', error));
  }

  /**
   * Settles an outcome.
   * @returns `tried` resolves when the outcome is stored, or when its row is locked by somebody else; `settled`
   * resolves when the outcome is stored
   */
  settle(outcome: PushOutcome, kind: string): { readonly tried: Promise<void>; readonly settled: Promise<void> } {
    const [tried, settled] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    this.#toSettle.push({
      outcome,
      kind,
      tried: tried.resolve,
      done: settled.resolve,
      inSpan: AsyncLocalStorage.snapshot(),
    });
    if (!this.#shouldGather) this.#endGathering();
    void this.#settleQueued();
    return { tried: tried.promise, settled: settled.promise };
  }

  /** Settles the outcomes of look-ups. Does not wait for rows that somebody else has locked. */
  async settleAll(outcomes: readonly PushOutcome[], kind: string): Promise<void> {
    await Promise.all(outcomes.map((outcome) => this.settle(outcome, kind).tried));
  }

  /** Settles the outcomes that arrived during the last transaction, and repeats until the queue is empty. */
  async #settleQueued(): Promise<void> {
    if (this.#isSettling) return;
    this.#isSettling = true;
    while (this.#toSettle.length > 0) {
      if (this.#shouldGather) await this.#gather();
      const batch = this.#toSettle;
      this.#toSettle = [];
      await this.#settleBatch(batch);
    }
    this.#isSettling = false;
  }

  get #shouldGather(): boolean {
    return this.#mayGather() && this.#toSettle.every(({ outcome }) => outcome.settlement.status === 'done');
  }

  async #gather(): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, gatherMs);
      this.#endGathering = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.#endGathering = () => undefined;
  }

  async #settleBatch(batch: readonly QueuedOutcome[]): Promise<void> {
    for (;;) {
      try {
        const { busy, woken } = await this.#settleOnce(batch, settleOutcomes);
        // Settle locked rows separately, so that they do not delay the others.
        for (const entry of busy) void this.#settleAlone(entry);
        // The next transaction need not wait until the lanes are awake.
        void woken.then(() => {
          for (const entry of batch) {
            entry.tried();
            if (!busy.includes(entry)) entry.done();
          }
        });
        return;
      } catch (error) {
        this.#events.onError('settle', error);
        // If the process has to end, other workers find the unsettled rows when the claims expire.
        if (this.#signal.aborted) break;
        await this.#pause();
      }
    }
    for (const { tried, done } of batch) {
      tried();
      done();
    }
  }

  /** Settles an outcome whose row is locked, as soon as the row is free. */
  async #settleAlone(entry: QueuedOutcome): Promise<void> {
    for (let busy = [entry]; busy.length > 0 && !this.#signal.aborted; ) {
      await this.#pause();
      try {
        const tried = await this.#settleOnce([entry], settleUnlocked);
        await tried.woken;
        busy = tried.busy;
      } catch (error) {
        this.#events.onError('settle', error);
      }
    }
    entry.done();
  }

  /**
   * Settles the outcomes whose rows are free, and reports them.
   * @returns the outcomes whose rows are locked; and `woken`, which resolves when the next rows of the lanes are awake
   */
  async #settleOnce(
    batch: readonly QueuedOutcome[],
    settle: typeof settleOutcomes,
  ): Promise<{ readonly busy: QueuedOutcome[]; readonly woken: Promise<void> }> {
    const outcomes = batch.map(({ outcome }) => outcome);
    const { settled, busy } = await settle(this.#deps, outcomes);
    const woken = this.#waker.wake(settled.filter(({ frees }) => frees));
    const [ids, locked] = [new Set(settled.map(({ id }) => id)), new Set(busy.map(({ settlement }) => settlement.id))];
    for (const { outcome, kind, inSpan } of batch)
      if (ids.has(outcome.settlement.id)) inSpan(() => this.#events.onSettled(outcome.settlement, kind));
    return { busy: batch.filter(({ outcome }) => locked.has(outcome.settlement.id)), woken };
  }

  /** Waits before settling is tried again while the database does not answer. An outcome is never given up. */
  async #pause(): Promise<void> {
    await wait(pauses.settlement.firstMs, undefined, { signal: this.#signal }).catch(() => undefined);
  }
}
