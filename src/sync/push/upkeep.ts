import { operatorChoices, type UnknownRule } from '../../core/push-outcome.ts';
import { markServed, type Own } from '../../erp/clients.ts';
import type { Database } from '../../erp/connect.ts';
import { type Claimed, renewClaims, type TakenOver, takeOverClaims } from '../../erp/outbox-claims.ts';
import { buryStrangers } from '../../erp/outbox-due.ts';
import { forgetOldHealth } from '../../erp/push-health.ts';

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
  readonly onTakenOver: (row: TakenOver) => void;
  readonly onBuried: (rows: number) => void;
  readonly onError: (task: string, error: unknown) => void;
}

/** Keeps the claims of this worker alive, whatever else is slow, and beside that sees to what others left behind. */
export class Upkeep {
  readonly #options: UpkeepOptions;
  readonly #running = new Map<string, Promise<void>>();
  #timer: NodeJS.Timeout | undefined;

  constructor(options: UpkeepOptions) {
    this.#options = options;
  }

  start(): void {
    this.#timer = setInterval(() => void this.once(), everyMs);
  }

  /** Ends when what is under way has. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await Promise.all(this.#running.values());
  }

  /** Each of its tasks once, unless it is under way: none waits for another. */
  async once(): Promise<void> {
    const { claimsDb, claims } = this.#options;
    await Promise.all([
      this.#alone('renew', () => renewClaims(claimsDb, claims())),
      this.#alone('tend', () => this.#tend()),
    ]);
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
