import { setTimeout as wait } from 'node:timers/promises';
import { repeat } from '../core/repeat.ts';
import { minuteMs } from '../core/time.ts';
import { notifyPushers } from '../db/listener.ts';
import type { Database } from '../db/pool.ts';
import { maxNumbered, numberChanges } from '../pull/sql/feed.ts';
import { type FreedLane, findFreedLanes, releaseLanes } from './sql/lanes.ts';

/** Milliseconds between two looks for changes that nobody told this process of. */
const paceMs = 1_000;
/** Minimum milliseconds between two looks: one moves what several settlements have written. */
const spacingMs = 50;
/** Milliseconds until the next try if another process moves changes, and the number of tries. */
const busyMs = 20;
const maxTries = 10;
/** Maximum number of lanes with a locked row that are tried again. The others wait ten minutes. */
const maxLocked = 10_000;
/** Milliseconds between two searches of the whole table. */
const wholeMs = minuteMs;

/**
 * Moves committed changes to the feed, and releases the lanes of the outbox rows among them. Every
 * worker does this; Postgres lets one at a time.
 */
export class FeedNumbering {
  readonly #db: Database;
  readonly #onError: (error: unknown) => void;
  /** Outbox rows that were moved, and whose lanes are not released yet. */
  #outboxIds: readonly number[] = [];
  /** Lanes whose first row somebody has locked. */
  #locked: readonly FreedLane[] = [];
  #running: Promise<void> | undefined;
  #isWanted = false;
  /** When the next search of the whole table is due, by performance.now(). */
  #wholeAtMs = 0;
  /** When the last look ended, by performance.now(). */
  #lookedAtMs = Number.NEGATIVE_INFINITY;
  #pace: ReturnType<typeof repeat> | undefined;

  constructor(db: Database, onError: (error: unknown) => void) {
    this.#db = db;
    this.#onError = onError;
  }

  /** Looks for changes now and then, until closed. */
  start(): void {
    this.#pace = repeat(paceMs, () => this.number());
  }

  /** Moves what is left, and stops. */
  async close(): Promise<void> {
    await this.#pace?.close();
    await this.number();
  }

  /** Moves all changes that are committed now. It never rejects. */
  readonly number = (): Promise<void> => {
    this.#isWanted = true;
    this.#running ??= this.#run();
    return this.#running;
  };

  async #run(): Promise<void> {
    try {
      while (this.#isWanted) {
        const restMs = this.#lookedAtMs + spacingMs - performance.now();
        if (restMs > 0) await wait(restMs);

        this.#isWanted = false;
        await this.#moveAll();
        this.#lookedAtMs = performance.now();
      }
    } catch (error) {
      this.#onError(error);
    } finally {
      this.#running = undefined;
    }
  }

  /**
   * Moves changes, some at a time, until none wait. Releases the lanes of each part before the next
   * part, so that it holds few ids however many rows were changed at once.
   */
  async #moveAll(): Promise<void> {
    // What an earlier look could not release.
    await this.#release();

    for (let tries = 0; tries < maxTries; ) {
      const isWhole = performance.now() >= this.#wholeAtMs;
      const { numbered, outboxIds } = await this.#numberOnce(isWhole);
      this.#outboxIds = outboxIds;
      if (outboxIds.length > 0) await this.#release();

      if (numbered === null) {
        tries++;
        await wait(busyMs);
      } else if (numbered < maxNumbered) {
        if (isWhole) this.#wholeAtMs = performance.now() + wholeMs;
        return;
      }
    }
  }

  /**
   * Moves some changes. If a search of the whole table fails, the next looks do without one: it may
   * take too long, while a transaction that stays open keeps rows that were moved.
   */
  async #numberOnce(isWhole: boolean) {
    try {
      return await numberChanges(this.#db, isWhole);
    } catch (error) {
      if (isWhole) this.#wholeAtMs = performance.now() + wholeMs;
      throw error;
    }
  }

  /**
   * Makes the first row of each lane due that a claim has postponed meanwhile. If an ERP
   * transaction has locked that row, the next look tries again: nothing else makes it due for ten
   * minutes.
   */
  async #release(): Promise<void> {
    const freed = await findFreedLanes(this.#db, this.#outboxIds);
    const { released, locked } = await releaseLanes(this.#db, [...freed, ...this.#locked]);

    this.#outboxIds = [];
    this.#locked = locked.slice(0, maxLocked);
    if (released > 0) await notifyPushers(this.#db);
  }
}
