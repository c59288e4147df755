import type { FastifyInstance } from 'fastify';
import type { CurrentState } from '../health/overview.ts';
import type { StateMetrics } from '../metrics/state-metrics.ts';
import type { AdminDeps } from './admin-deps.ts';
import { withReadTimeout } from './read-timeout.ts';

/** Registers `/metrics`: the work of this worker and the current state. Without the database, only the work is sent. */
export function registerMetricsRoute(
  app: FastifyInstance,
  { config, metrics, daemon, log }: AdminDeps,
  state: StateMetrics,
  read: () => Promise<CurrentState>,
): void {
  const configuredClients = config.clients.map(({ key }) => key);
  app.get('/metrics', async (_request, reply) => {
    const [current, queues] = await Promise.all([
      withReadTimeout(read()).catch(() => null),
      countJobs(daemon()?.queues ?? new Map(), log),
    ]);
    // Values are set and sent without a wait between, so another scrape cannot interfere.
    if (current === null) state.setUnknown();
    else state.set(current, configuredClients, config.LOOKBACK_DAYS);
    for (const [name, counts] of queues) state.setQueue(name, counts);
    return reply.type(metrics.registry.contentType).send(await metrics.registry.metrics());
  });
}

type Queues = NonNullable<ReturnType<AdminDeps['daemon']>>['queues'];

/** Counts the jobs of each queue by state. Leaves out a queue that cannot be reached. */
async function countJobs(queues: Queues, log: AdminDeps['log']) {
  const counted = await Promise.all(
    [...queues].map(async ([name, queue]) => {
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
