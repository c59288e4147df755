import type { JobName } from '../../config/schedules.ts';
import type { TaskQueue } from './backend.ts';

/** The sweeper queues an overdue job again at most so often, whatever BullMQ believes to have queued already. */
const overdueBucketMs = 30_000;

/**
 * Queues one run for each of these clients; one that is queued or running is not queued twice. A run that comes twice
 * all the same finds itself not due and ends at once.
 * @param overdueNowMs given by the sweeper: the time, to which the mark against doubles is bound, so that a mark BullMQ
 *   lost track of cannot keep a job from ever running
 */
export async function dispatch(
  queue: TaskQueue,
  job: JobName,
  clients: readonly string[],
  overdueNowMs?: number,
): Promise<void> {
  if (clients.length === 0) return;
  const mark = overdueNowMs === undefined ? 'tick' : `overdue-${Math.floor(overdueNowMs / overdueBucketMs)}`;
  await queue.addBulk(
    clients.map((client) => ({
      name: job,
      data: { client },
      opts: { attempts: 1, deduplication: { id: `${job}/${client}/${mark}` } },
    })),
  );
}
