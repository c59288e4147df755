import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { hasCode } from '../core/errors.ts';
import { SchemaError } from '../db/migration-files.ts';
import type { Database } from '../db/pool.ts';
import { assertCodeFits } from '../db/schema-fit.ts';
import { type ClientAccount, markServed } from '../service/sql/clients.ts';
import { forgetOldHealth } from '../service/sql/service-health.ts';
import type { UnknownRule } from './judge-outcome.ts';
import { lookedUpKinds } from './kinds/registry.ts';
import type { RecentSends } from './send-row.ts';
import { type HeldClaim, renewClaims } from './sql/claim-rows.ts';
import { bringLookUpsForward } from './sql/look-ups.ts';
import {
  markUnsendableRowsDead,
  type TakenOverRow,
  takeOverClaims,
  type UnsendableRow,
  type UnsendableRows,
} from './sql/lost-rows.ts';
import {
  acceptFencedFailover,
  markAlive,
  markEnded,
  noteDatabase,
  notePlace,
  type PushDatabase,
  readPushDatabase,
} from './sql/push-database.ts';

/** Milliseconds between two renewals of claims, and between two searches for lost workers. */
const upkeepMs = 3_000;
/**
 * Milliseconds between two runs of tasks that nothing waits for. What they record is exact to half
 * a minute.
 */
const slowTaskMs = 12_000;

/** Milliseconds after which an upkeep begins no further search for rows that no worker can send. */
const markingMs = 1_000;

/**
 * Milliseconds that a stop waits for tasks. On a connection that no longer answers they take a
 * minute to fail.
 */
const endTimeoutMs = 2_000;

/** Milliseconds that a command waits for a worker that knows the place of this database. */
const placeAnswerMs = 7_000;
const placeLookMs = 250;

const isSlowTaskDue = (lastAtMs: number) => performance.now() - lastAtMs >= slowTaskMs;

export interface UpkeepOptions {
  readonly db: Database;
  /** A database whose pool is used for nothing else, so that a busy pool costs no claim. */
  readonly claimsDb: Database;
  readonly worker: string;
  /** The clients that this process pushes for. */
  readonly clients: readonly ClientAccount[];
  readonly rules: Readonly<Record<string, UnknownRule>>;
  /** True if the cluster ends a former primary before it promotes another one. */
  readonly isFenced: boolean;
  /** Returns the claims that this process holds. */
  readonly claims: () => readonly HeldClaim[];
  /** Rows that this process has sent last. */
  readonly sent: RecentSends;
  readonly events: {
    /** Called when rows may be sent from this database, and when they may not any more. */
    readonly onDatabase: (database: PushDatabase) => void;
    readonly onTakenOver: (row: TakenOverRow) => void;
    readonly onMarkedDead: (rows: readonly UnsendableRow[]) => void;
    /** Called when the database was migrated beyond this code: claims find nothing more. */
    readonly onOutdated: (error: SchemaError) => void;
    readonly onError: (task: string, error: unknown) => void;
  };
  /** Called when rows or look-ups may be due now. */
  readonly wake: () => void;
}

/**
 * Renews the claims of this worker, independent of other work, and takes over what lost workers
 * left behind.
 */
export class Upkeep {
  readonly #options: UpkeepOptions;
  /**
   * Identifies this process. Another one with its worker name, such as after a restart, has sent
   * other rows.
   */
  readonly #process: string;
  readonly #running = new Map<string, Promise<void>>();
  /** When the database that this process sends from was accepted. */
  #acceptedAtMs: number | null = null;
  #timer: NodeJS.Timeout | undefined;
  #databaseState = '';
  /** The last result of the check of the database. */
  #change: PushDatabase['change'] | undefined;
  /** True if nothing is sent only because the place of the database is not accepted. */
  #isAsking = false;
  /** Where the search for rows that no worker can send continues. */
  #unsendableAfter: UnsendableRows['next'] = null;
  #markedAliveAtMs = Number.NEGATIVE_INFINITY;
  #tidiedUpAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: UpkeepOptions) {
    this.#options = options;
    this.#process = `${options.worker} ${randomUUID()}`;
  }

  start(): void {
    this.#timer = setInterval(() => void this.once(), upkeepMs);
  }

  /**
   * Stops the timer, and resolves when running tasks have ended, or do not end in time. What they
   * would record expires by itself.
   */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await Promise.race([this.#end(), wait(endTimeoutMs, undefined, { ref: false })]);
  }

  async #end(): Promise<void> {
    await Promise.all(this.#running.values());
    await this.#runOnce('end', () => markEnded(this.#options.db, this.#process));
  }

  /** Starts each task, unless it is still running. No task waits for another. */
  async once(): Promise<void> {
    const { claimsDb, claims } = this.#options;
    await Promise.all([
      this.#runOnce('renew', () => renewClaims(claimsDb, claims())),
      this.lookAtDatabase(),
      this.#runOnce('tidy up', () => this.#tidyUp()),
    ]);
  }

  /** Checks whether rows may be sent from this database. */
  lookAtDatabase(): Promise<void> {
    return this.#runOnce('database', async () => {
      const database = await this.#checkDatabase();
      const { change, acceptedAs, isPlaceAccepted } = database;

      if (change === 'none' && isPlaceAccepted) await this.#useDatabase(database);

      this.#change = change;
      this.#isAsking = change === 'none' && acceptedAs !== 'copy' && !isPlaceAccepted;
      this.#report(database);
    });
  }

  /** Reports the database if its state has changed. */
  #report(database: PushDatabase): void {
    const { change, acceptedAs, isPlaceAccepted } = database;
    const state = `${change} ${acceptedAs} ${isPlaceAccepted}`;
    if (state === this.#databaseState) return;

    this.#databaseState = state;
    this.#options.events.onDatabase(database);
    this.#options.wake();
  }

  /** Waits for a moment, if a worker at an accepted place can say that this is its database. */
  async awaitPlace(): Promise<void> {
    const endMs = performance.now() + placeAnswerMs;
    while (this.#isAsking && performance.now() < endMs) {
      await wait(placeLookMs);
      await this.lookAtDatabase();
    }
  }

  async #checkDatabase(): Promise<PushDatabase> {
    const { db, sent, isFenced } = this.#options;
    const found = await noteDatabase(db, this.#process, sent.rows);
    const database = await notePlace(db, this.#process, found);
    // A copy that was promoted elsewhere differs in its timeline only, too.
    if (database.change !== 'timeline' || !database.isPlaceAccepted) return database;

    const isAccepted = await acceptFencedFailover(db, isFenced, this.#process);
    return isAccepted ? ((await readPushDatabase(db)) ?? database) : database;
  }

  async #useDatabase({ acceptedAs, acceptedAt }: PushDatabase): Promise<void> {
    const { db, sent } = this.#options;
    const acceptedAtMs = acceptedAt.getTime();
    // Rows that were sent from another database are not in this one. After a failover they are.
    const isOther = this.#acceptedAtMs !== null && this.#acceptedAtMs !== acceptedAtMs;
    if (isOther && acceptedAs !== 'failover') sent.clear();
    this.#acceptedAtMs = acceptedAtMs;

    // After a change of the database it is marked at once: the mark also withdraws a confirmation.
    if (!isSlowTaskDue(this.#markedAliveAtMs) && this.#change === 'none') return;
    await markAlive(db, this.#process);
    this.#markedAliveAtMs = performance.now();
  }

  /** Takes over the claims of lost workers, and marks rows dead that no worker can send. */
  async #tidyUp(): Promise<void> {
    const { db, worker, clients, rules, events, wake } = this.#options;
    if (await this.#isOutdated()) return;

    const taken = await takeOverClaims(db, worker, rules);
    for (const row of taken) events.onTakenOver(row);
    if (taken.length > 0) wake();
    await this.#markUnsendable();
    if (!isSlowTaskDue(this.#tidiedUpAtMs)) return;
    const keys = clients.map(({ client }) => client);
    if (await bringLookUpsForward(db, keys, lookedUpKinds)) wake();
    await markServed(db, clients);
    await forgetOldHealth(db);
    this.#tidiedUpAtMs = performance.now();
  }

  /** Returns true if this code must not change rows any more. */
  async #isOutdated(): Promise<boolean> {
    try {
      await assertCodeFits(this.#options.db);
      return false;
    } catch (error) {
      if (!(error instanceof SchemaError)) throw error;
      this.#options.events.onOutdated(error);
      return true;
    }
  }

  /**
   * Marks rows dead that no worker can send, until none is left or the time is over; the next call
   * continues.
   */
  async #markUnsendable(): Promise<void> {
    const { db, worker, events } = this.#options;
    const endMs = performance.now() + markingMs;
    do {
      const { rows, next } = await markUnsendableRowsDead(db, worker, this.#unsendableAfter);
      events.onMarkedDead(rows);
      this.#unsendableAfter = next;
      if (next === null && rows.length === 0) return;
    } while (performance.now() < endMs);
  }

  #runOnce(task: string, work: () => Promise<void>): Promise<void> {
    const running =
      this.#running.get(task) ??
      work()
        .catch((error: unknown) => {
          this.#options.events.onError(task, error);
          // The listener may have lost its connection, too, and notices that later.
          if (hasCode(error, 'database_lost')) this.#options.wake();
        })
        .finally(() => this.#running.delete(task));
    this.#running.set(task, running);
    return running;
  }
}
