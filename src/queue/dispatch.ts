import type { JobName } from '../../config/jobs.ts';
import type { TaskQueue } from './backend.ts';

/** The sweeper queues an overdue job again at most so often, whatever BullMQ believes to have queued already. */
const overdueBucketMs = 30_000;
/** So much later than due: a run that begins too early by the database's clock would find itself not due. */
const marginMs = 50;

/** A run to queue. */
export interface Turned {
  readonly client: string;
  /** Milliseconds until it is due; 0 or less: now. */
  readonly inMs: number;
  /** When it is due, milliseconds since 1970. */
  readonly dueMs: number;
}

/**
 * Queues one run for each of these clients, those that are not due yet with a delay; one that is queued for the same due
 * time, or running for it, is not queued twice. A run that comes twice all the same finds itself not due and ends at once.
 * @param overdueNowMs given by the sweeper: the time, to which the mark against doubles is bound, so that a mark BullMQ
 *   lost track of cannot keep a job from ever running
 */
export async function dispatch(
  queue: TaskQueue,
  job: JobName,
  runs: readonly Turned[],
  overdueNowMs?: number,
): Promise<void> {
  if (runs.length === 0) return;
  const bucket = overdueNowMs === undefined ? '' : `-overdue-${Math.floor(overdueNowMs / overdueBucketMs)}`;
  await queue.addBulk(
    runs.map(({ client, inMs, dueMs }) => ({
      name: job,
      data: { client },
      opts: {
        attempts: 1,
        deduplication: { id: `${job}/${client}/${dueMs}${bucket}` },
        ...(inMs > 0 ? { delay: Math.ceil(inMs) + marginMs } : {}),
      },
    })),
  );
}
