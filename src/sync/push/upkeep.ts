import { randomUUID } from 'node:crypto';
import { operatorChoices, type UnknownRule } from '../../core/push-outcome.ts';
import type { Database } from '../../erp/connection/pool.ts';
import { type Claimed, renewClaims, type TakenOver, takeOverClaims } from '../../erp/outbox/claims-held.ts';
import { buryStrangers } from '../../erp/outbox/due.ts';
import { forgetOldHealth } from '../../erp/outbox/holds.ts';
import { markAlive, markEnded, noteDatabase, type PushDatabase } from '../../erp/outbox/push-database.ts';
import { markServed, type Own } from '../../erp/runs/clients.ts';
import type { RecentSends } from './recent-sends.ts';

/** How often claims are renewed, and those of lost workers taken over. */
const everyMs = 3_000;

export interface UpkeepOptions {
  readonly db: Database;
  /** A database whose pool is used for nothing else: a busy one must not cost a claim. */
  readonly claimsDb: Database;
  readonly worker: string;
  readonly clients: readonly Own[];
  readonly rules: Readonly<Record<string, UnknownRule>>;
  /** Claims under way. */
  readonly claims: () => readonly Claimed[];
  /** Rows that this process has sent last. */
  readonly sent: RecentSends;
  /** Called after each look at the database. */
  readonly onDatabase: (database: PushDatabase) => void;
  readonly onTakenOver: (row: TakenOver) => void;
  readonly onBuried: (rows: number) => void;
  readonly onError: (task: string, error: unknown) => void;
}

/** Keeps the claims of this worker alive, whatever else is slow, and beside that sees to what others left behind. */
export class Upkeep {
  readonly #options: UpkeepOptions;
  /** Another process may have the same worker name, as after the restart of a container. It has sent other rows. */
  readonly #process: string;
  readonly #running = new Map<string, Promise<void>>();
  /** When the database was accepted from which this process has sent its rows. */
  #acceptedAtMs: number | null = null;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: UpkeepOptions) {
    this.#options = options;
    this.#process = `${options.worker} ${randomUUID()}`;
  }

  start(): void {
    this.#timer = setInterval(() => void this.once(), everyMs);
  }

  /** Ends when what is under way has. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await Promise.all(this.#running.values());
    await this.#alone('end', () => markEnded(this.#options.db, this.#process));
  }

  /** Starts each task, unless it is still running. No task waits for another. */
  async once(): Promise<void> {
    const { claimsDb, claims } = this.#options;
    await Promise.all([
      this.#alone('renew', () => renewClaims(claimsDb, claims())),
      this.lookAtDatabase(),
      this.#alone('tend', () => this.#tend()),
    ]);
  }

  /** Finds out whether rows may be sent from this database. */
  lookAtDatabase(): Promise<void> {
    const { db, sent, onDatabase } = this.#options;
    return this.#alone('database', async () => {
      const database = await noteDatabase(db, this.#process, sent.rows);
      if (database.change === 'none') {
        const acceptedAtMs = database.acceptedAt.getTime();
        // What was sent from another database is not in this one. After a failover everything is.
        const isOther = this.#acceptedAtMs !== null && this.#acceptedAtMs !== acceptedAtMs;
        if (isOther && database.acceptedAs !== 'failover') sent.clear();
        this.#acceptedAtMs = acceptedAtMs;
        await markAlive(db, this.#process);
      }
      onDatabase(database);
    });
  }

  /** Takes over the claims of lost workers, and ends rows of clients that nobody knows. */
  async #tend(): Promise<void> {
    const { db, worker, clients, rules, onTakenOver, onBuried } = this.#options;
    for (const row of await takeOverClaims(db, worker, rules, operatorChoices)) onTakenOver(row);
    await markServed(db, clients);
    await forgetOldHealth(db);
    const buried = await buryStrangers(db, worker);
    if (buried > 0) onBuried(buried);
  }

  #alone(task: string, work: () => Promise<void>): Promise<void> {
    const running =
      this.#running.get(task) ??
      work()
        .catch((error: unknown) => this.#options.onError(task, error))
        .finally(() => this.#running.delete(task));
    this.#running.set(task, running);
    return running;
  }
}
