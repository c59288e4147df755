/** How often every worker looks whether anything fell through the queue. */
export const sweepMs = 3_000;
/** Once in this many sweeps the schedulers are compared with the plan: a flushed queue is whole again within 15 s. */
const sweepsPerAlignment = 5;

export interface SweeperTasks {
  /** Takes back the leases of lost workers and makes their jobs due. */
  readonly revive: () => Promise<void>;
  /** Queues what is overdue. */
  readonly dispatchOverdue: () => Promise<void>;
  /** Re-creates schedulers that are gone. */
  readonly align: () => Promise<void>;
  readonly onError: (task: string, error: unknown) => void;
}

/** Watches over the queue from outside it: what must run is written in Postgres, whatever the queue remembers. */
export class Sweeper {
  readonly #tasks: SweeperTasks;
  #timer: NodeJS.Timeout | undefined;
  #sweeping: Promise<void> | undefined;
  #sweeps = 0;
  #lastDoneAtMs: number | undefined;

  constructor(tasks: SweeperTasks) {
    this.#tasks = tasks;
  }

  /** Sweeps at once, and every few seconds from then on. */
  start(): void {
    this.#sweep();
    this.#timer = setInterval(() => this.#sweep(), sweepMs);
  }

  /** Ends after the sweep under way. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#sweeping;
  }

  /** Milliseconds since the last sweep that did all it had to; undefined before the first. */
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
    results.push(await this.#attempt('dispatchOverdue'));
    if (results.every(Boolean)) this.#lastDoneAtMs = performance.now();
  }

  /** A task that fails must not keep the others from being tried, and is tried again with the next sweep. */
  async #attempt(task: 'revive' | 'dispatchOverdue' | 'align'): Promise<boolean> {
    try {
      await this.#tasks[task]();
      return true;
    } catch (error) {
      this.#tasks.onError(task, error);
      return false;
    }
  }
}
