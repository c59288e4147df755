import { Worker, type WorkerOptions } from 'bullmq';
import type { Redis } from 'ioredis';
import type { JobData, Processor, QueueName } from './define-job.ts';

/**
 * A worker of a queue in Redis that can be closed while Redis is away. BullMQ's `close` then waits until Redis is back,
 * because it tells Redis the end of each run.
 */
export class RedisWorker extends Worker<JobData> {
  readonly #consumer: Redis;
  readonly #runs: ReadonlySet<Promise<void>>;

  constructor(name: QueueName, processor: Processor, consumer: Redis, options: Omit<WorkerOptions, 'connection'>) {
    const runs = new Set<Promise<void>>();
    const run: Processor = async (job, token, signal) => {
      const running = processor(job, token, signal);
      runs.add(running);
      return running.finally(() => runs.delete(running));
    };
    // BullMQ passes the signal only to a function that declares three parameters.
    super(name, (job, token, signal) => run(job, token, signal), { ...options, connection: consumer });
    this.#consumer = consumer;
    this.#runs = runs;
  }

  /**
   * Waits for the runs under way, and closes the worker. If Redis is away, it does not learn their end: the sweeper
   * queues again what is still due.
   */
  override async close(force = false): Promise<void> {
    if (force || this.#consumer.status === 'ready') return super.close(force);
    await Promise.allSettled(this.#runs);
    return super.close(true);
  }
}
