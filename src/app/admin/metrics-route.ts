import type { FastifyInstance } from 'fastify';
import type { Standing } from '../health/overview.ts';
import type { StateMetrics } from '../metrics/state-metrics.ts';
import type { AdminDeps } from './admin-deps.ts';
import { inTime } from './in-time.ts';

/** `/metrics`: what this worker did, and how everything stands. What cannot be read is said, and the rest told. */
export function metricsRoute(
  app: FastifyInstance,
  { config, metrics, daemon, log }: AdminDeps,
  state: StateMetrics,
  read: () => Promise<Standing>,
): void {
  const own = config.clients.map(({ key }) => key);
  app.get('/metrics', async (_request, reply) => {
    const [standing, queues] = await Promise.all([
      inTime(read()).catch(() => null),
      countJobs(daemon()?.queues ?? new Map(), log),
    ]);
    // Set at once and then written: another scrape cannot come in between.
    if (standing === null) state.setUnknown();
    else state.set(standing, own, config.LOOKBACK_DAYS);
    for (const [name, counts] of queues) state.setQueue(name, counts);
    return reply.type(metrics.registry.contentType).send(await metrics.registry.metrics());
  });
}

type Queues = NonNullable<ReturnType<AdminDeps['daemon']>>['queues'];

async function countJobs(queues: Queues, log: AdminDeps['log']) {
  const counted = await Promise.all(
    [...queues].map(async ([name, queue]) => {
      try {
        return [[name, await inTime(queue.getJobCounts())] as const];
      } catch {
        // A queue that is away is told by queue_error; no count is better than a wrong one.
        log.debug({ event: 'queue_not_counted', queue: name });
        return [];
      }
    }),
  );
  return counted.flat();
}
