import { setTimeout as wait } from 'node:timers/promises';
import type { Settlement } from '../../erp/outbox/settle.ts';
import type { Ended, PushDeps } from './attempt.ts';
import { LaneWaker } from './lane-waker.ts';
import { settleEnded, settleFree } from './settle.ts';

/** Settling is tried again after this time while the database is away: an outcome is never given up. */
const settleRetryMs = 500;

/** While others are being sent, those that are done wait this long for others: one transaction settles many as fast as one. */
const gatherMs = 10;

/** What it tells of its work. */
interface SettleEvents {
  readonly onSettled: (settlement: Settlement, kind: string) => void;
  readonly onError: (task: string, error: unknown) => void;
}

/** One attempt or look-up that has ended, and who waits for its settlement. */
interface ToSettle {
  readonly ended: Ended;
  readonly kind: string;
  readonly tried: () => void;
  readonly done: () => void;
}

/** Settles what attempts and look-ups of one client brought, all that has come together in one transaction. */
export class SettleQueue {
  readonly #deps: PushDeps;
  readonly #mayGather: () => boolean;
  readonly #signal: AbortSignal;
  readonly #events: SettleEvents;
  readonly #waker: LaneWaker;
  #toSettle: ToSettle[] = [];
  #settling = false;
  #endGathering: () => void = () => undefined;

  /**
   * @param mayGather whether more will be there soon, and nothing has to wait for these
   * @param signal ends the trying while the database is away
   */
  constructor(deps: PushDeps, mayGather: () => boolean, signal: AbortSignal, events: SettleEvents) {
    this.#deps = deps;
    this.#mayGather = mayGather;
    this.#signal = signal;
    this.#events = events;
    this.#waker = new LaneWaker(deps.db, signal, (error) => events.onError('wake', error));
  }

  /**
   * Settles an attempt.
   * @returns `tried`: the database has it, or its row is locked by somebody else; `settled`: the database has it
   */
  settle(ended: Ended, kind: string): { readonly tried: Promise<void>; readonly settled: Promise<void> } {
    const [tried, settled] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    this.#toSettle.push({ ended, kind, tried: tried.resolve, done: settled.resolve });
    if (!this.#gathers) this.#endGathering();
    void this.#settleQueued();
    return { tried: tried.promise, settled: settled.promise };
  }

  /** Settles look-ups; does not wait for rows that somebody else has locked. */
  async settleAll(ended: readonly Ended[], kind: string): Promise<void> {
    await Promise.all(ended.map((one) => this.settle(one, kind).tried));
  }

  /** Settles what has come together while the last transaction was under way; again, until the database has it. */
  async #settleQueued(): Promise<void> {
    if (this.#settling) return;
    this.#settling = true;
    while (this.#toSettle.length > 0) {
      if (this.#gathers) await this.#gather();
      const batch = this.#toSettle;
      this.#toSettle = [];
      await this.#settleBatch(batch);
    }
    this.#settling = false;
  }

  get #gathers(): boolean {
    return this.#mayGather() && this.#toSettle.every(({ ended }) => ended.settlement.status === 'done');
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

  async #settleBatch(batch: readonly ToSettle[]): Promise<void> {
    for (;;) {
      try {
        const busy = await this.#settleOnce(batch, settleEnded);
        // Their row is locked by somebody else, who must not keep the others waiting.
        for (const entry of busy) void this.#settleAlone(entry);
        for (const entry of batch) {
          entry.tried();
          if (!busy.includes(entry)) entry.done();
        }
        return;
      } catch (error) {
        this.#events.onError('settle', error);
        // Once the process has to end, what is not settled is found unknown by others when the claim has run out.
        if (this.#signal.aborted) break;
        await this.#pause();
      }
    }
    for (const { tried, done } of batch) {
      tried();
      done();
    }
  }

  /** Settles one whose row is locked, as soon as it is free. */
  async #settleAlone(entry: ToSettle): Promise<void> {
    for (let busy = [entry]; busy.length > 0 && !this.#signal.aborted; ) {
      await this.#pause();
      try {
        busy = await this.#settleOnce([entry], settleFree);
      } catch (error) {
        this.#events.onError('settle', error);
      }
    }
    entry.done();
  }

  /** Settles what can be settled, tells of it, and returns those whose row is locked. */
  async #settleOnce(batch: readonly ToSettle[], settle: typeof settleEnded): Promise<ToSettle[]> {
    const all = batch.map(({ ended }) => ended);
    const { settled, busy } = await settle(this.#deps, all);
    await this.#waker.wake(settled.filter(({ status }) => status === 'done'));
    const [ids, locked] = [new Set(settled.map(({ id }) => id)), new Set(busy.map(({ settlement }) => settlement.id))];
    for (const { ended, kind } of batch)
      if (ids.has(ended.settlement.id)) this.#events.onSettled(ended.settlement, kind);
    return batch.filter(({ ended }) => locked.has(ended.settlement.id));
  }

  async #pause(): Promise<void> {
    await wait(settleRetryMs, undefined, { signal: this.#signal }).catch(() => undefined);
  }
}
