/** Interval in which every worker looks for work that the queue has lost. */
export const sweepMs = 3_000;
/**
 * The schedulers are compared with the plan once in this many sweeps: an emptied queue is complete again within 15 s.
 */
const sweepsPerAlignment = 5;

/** The tasks of the sweeper. */
export interface SweeperTasks {
  /** Ends the leases of lost workers and makes their jobs due. */
  readonly revive: () => Promise<void>;
  /** Starts the overdue runs, for which slots are free. */
  readonly startOverdue: () => Promise<void>;
  /** Enters what ERPs cancelled into the feed. */
  readonly enterOutcomes: () => Promise<void>;
  /** Creates missing schedulers again. */
  readonly align: () => Promise<void>;
  readonly onError: (task: string, error: unknown) => void;
}

/** Finds what must run and does not, by the tables in Postgres, and starts it: the queue may have lost it, or be away. */
export class Sweeper {
  readonly #tasks: SweeperTasks;
  #timer: NodeJS.Timeout | undefined;
  #sweeping: Promise<void> | undefined;
  #sweeps = 0;
  #lastDoneAtMs: number | undefined;

  constructor(tasks: SweeperTasks) {
    this.#tasks = tasks;
  }

  /** Sweeps now, and then every few seconds. */
  start(): void {
    this.#sweep();
    this.#timer = setInterval(() => this.#sweep(), sweepMs);
  }

  /** Stops the sweeper. Waits for the sweep under way. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#sweeping;
  }

  /** Returns the milliseconds since the last sweep in which all tasks succeeded; undefined before the first. */
  sinceLastDoneMs(): number | undefined {
    return this.#lastDoneAtMs === undefined ? undefined : performance.now() - this.#lastDoneAtMs;
  }

  #sweep(): void {
    this.#sweeping ??= this.#run().finally(() => {
      this.#sweeping = undefined;
    });
  }

  async #run(): Promise<void> {
    const alignNow = this.#sweeps++ % sweepsPerAlignment === 0;
    const results = [await this.#attempt('revive'), alignNow ? await this.#attempt('align') : true];
    results.push(await this.#attempt('startOverdue'), await this.#attempt('enterOutcomes'));
    if (results.every(Boolean)) this.#lastDoneAtMs = performance.now();
  }

  /** Runs one task. A failed task does not stop the others, and is tried again with the next sweep. */
  async #attempt(task: Exclude<keyof SweeperTasks, 'onError'>): Promise<boolean> {
    try {
      await this.#tasks[task]();
      return true;
    } catch (error) {
      this.#tasks.onError(task, error);
      return false;
    }
  }
}
