import { Registry } from 'prom-client';
import type { Config } from '../../../config/env.ts';
import { type CurrentState, withReadTimeout } from '../health/overview.ts';
import type { Logger } from '../logging/logger.ts';
import { StateMetrics } from './state-metrics.ts';
import type { WorkMetrics } from './work-metrics.ts';

/** The parts that the metrics are read from. */
export interface MetricSources {
  readonly config: Config;
  readonly log: Logger;
  readonly work: WorkMetrics;
  readonly readState: () => Promise<CurrentState>;
  /** Returns the milliseconds since the last complete sweep; undefined before the first. */
  readonly sinceLastSweepMs: () => number | undefined;
  /** Returns the queues by name; none until the worker has started. */
  readonly queues: () => Iterable<
    readonly [name: string, queue: { getJobCounts: () => Promise<Readonly<Record<string, number>>> }]
  >;
}

/** All metrics of a worker: the work of its process, and the current state. Without the database, only the work is known. */
export class Metrics {
  readonly #sources: MetricSources;
  readonly #state = new StateMetrics();
  readonly #registry: Registry;
  readonly #startedAtMs = performance.now();

  constructor(sources: MetricSources) {
    this.#sources = sources;
    this.#registry = Registry.merge([sources.work.registry, this.#state.registry]);
  }

  /** Reads the current state, and returns what `format` makes of the registry of all metrics. */
  async read<T>(format: (registry: Registry) => Promise<T>): Promise<T> {
    const { readState, config, sinceLastSweepMs } = this.#sources;
    const [current, queues] = await Promise.all([withReadTimeout(readState()).catch(() => null), this.#countJobs()]);
    // Values are set and taken without a wait between, so another reader cannot interfere.
    const clients = config.clients.map(({ key }) => key);
    if (current === null) this.#state.setUnknown();
    else this.#state.set(current, clients, config.LOOKBACK_DAYS);
    this.#state.setSweepAge((sinceLastSweepMs() ?? performance.now() - this.#startedAtMs) / 1_000);
    for (const [name, counts] of queues) this.#state.setQueue(name, counts);
    return format(this.#registry);
  }

  /** Counts the jobs of each queue by state. Leaves out a queue that cannot be reached. */
  async #countJobs() {
    const { queues, log } = this.#sources;
    const counted = await Promise.all(
      [...queues()].map(async ([name, queue]) => {
        try {
          return [[name, await withReadTimeout(queue.getJobCounts())] as const];
        } catch {
          // The event `queue_error` tells that the queue is away.
          log.debug({ event: 'queue_not_counted', queue: name });
          return [];
        }
      }),
    );
    return counted.flat();
  }
}
