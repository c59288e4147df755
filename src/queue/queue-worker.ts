import { setTimeout as wait } from 'node:timers/promises';
import type { Processor } from './define-job.ts';

/** Milliseconds that BullMQ has to tell the queue how the last runs ended. */
const farewellMs = 2_000;

/** The part of BullMQ's Worker that we use. It is the same for both backends. */
interface BullWorker {
  waitUntilReady(): Promise<unknown>;
  run(): Promise<void>;
  cancelAllJobs(reason?: string): void;
  on(event: 'error', listener: (error: Error) => void): unknown;
  close(): Promise<void>;
}

/** A worker of one queue. It can be closed while the queue does not answer. */
export class QueueWorker {
  readonly #runs = new Set<Promise<void>>();
  readonly #worker: BullWorker;
  #closing: Promise<void> | undefined;

  /** @param create creates BullMQ's worker, which runs the given processor */
  constructor(processor: Processor, create: (processor: Processor) => BullWorker) {
    this.#worker = create((job, token, signal) => {
      const run = processor(job, token, signal);
      this.#runs.add(run);
      return run.finally(() => this.#runs.delete(run));
    });
  }

  waitUntilReady(): Promise<unknown> {
    return this.#worker.waitUntilReady();
  }

  run(): Promise<void> {
    return this.#worker.run();
  }

  cancelAllJobs(reason: string): void {
    this.#worker.cancelAllJobs(reason);
  }

  on(event: 'error', listener: (error: Error) => void): void {
    this.#worker.on(event, listener);
  }

  /**
   * Takes no more runs, and waits for those under way. BullMQ then tells the queue of their ends, and would wait as long
   * as the queue is away. We do not: the tables say what has run, and the sweeper queues what is due.
   */
  close(): Promise<void> {
    this.#closing ??= Promise.race([this.#worker.close(), this.#endOfRuns()]);
    return this.#closing;
  }

  async #endOfRuns(): Promise<void> {
    while (this.#runs.size > 0) await Promise.allSettled(this.#runs);
    await wait(farewellMs, undefined, { ref: false });
  }
}
