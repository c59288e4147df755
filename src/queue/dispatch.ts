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
 *   lost track of cannot keep a job from ever running. A run that waits in the queue is not queued again: if the workers
 *   cannot keep up, the queue holds each job of each client once
 */
export async function dispatch(
  queue: TaskQueue,
  job: JobName,
  runs: readonly Turned[],
  overdueNowMs?: number,
): Promise<void> {
  const wanted = overdueNowMs === undefined ? runs : await withoutWaiting(queue, job, runs);
  if (wanted.length === 0) return;
  const bucket = overdueNowMs === undefined ? '' : `-overdue-${Math.floor(overdueNowMs / overdueBucketMs)}`;
  await queue.addBulk(
    wanted.map(({ client, inMs, dueMs }) => ({
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

/** Maximum number of waiting jobs that are read. 1,000 clients have about as many. */
const maxWaitingRead = 10_000;

async function withoutWaiting(queue: TaskQueue, job: JobName, runs: readonly Turned[]): Promise<readonly Turned[]> {
  if (runs.length === 0) return runs;
  const jobs = await queue.getJobs('waiting', 0, maxWaitingRead);
  const waiting = new Set(jobs.filter(({ name }) => name === job).map(({ data }) => data.client));
  return runs.filter(({ client }) => !waiting.has(client));
}
