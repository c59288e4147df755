import type { JobName } from '../../config/jobs.ts';
import type { TaskQueue } from './backend.ts';

/** The sweeper queues an overdue job again at most so often, whatever BullMQ believes to have queued already. */
const overdueBucketMs = 30_000;
/** The same if so many runs wait that they are not read. */
const crowdedBucketMs = 600_000;
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

/** What waits in a queue, as the sweeper sees it before it queues what is overdue. */
export interface Waiting {
  /** Clients of the waiting runs, by job; null if there are too many to read. */
  readonly clients: ReadonlyMap<string, ReadonlySet<string | undefined>> | null;
}

/** Maximum number of waiting runs that are read: each costs a query of the queue. */
const maxWaitingRead = 300;

/** Reads which runs wait in a queue. */
export async function readWaiting(queue: TaskQueue): Promise<Waiting> {
  const { waiting = 0 } = await queue.getJobCounts();
  if (waiting > maxWaitingRead) return { clients: null };
  const jobs = waiting === 0 ? [] : await queue.getJobs('waiting', 0, maxWaitingRead);
  const byJob = Map.groupBy(jobs, ({ name }) => name);
  return { clients: new Map([...byJob].map(([name, runs]) => [name, new Set(runs.map(({ data }) => data.client))])) };
}

/** When overdue runs are queued, and what waits in the queue. */
export interface Overdue {
  readonly nowMs: number;
  /** Null if it was not looked at. */
  readonly waiting: Waiting | null;
}

/**
 * Queues one run for each of these clients, those that are not due yet with a delay; one that is queued for the same due
 * time, or running for it, is not queued twice. A run that comes twice all the same finds itself not due and ends at once.
 * @param overdue given by the sweeper. Its time makes the mark against doubles differ, so that a mark that BullMQ lost track of
 *   cannot keep a job from ever running. A run that waits in the queue is not queued again: if the workers cannot keep up,
 *   the queue holds each job of each client once. If too many wait to be read, each is queued again every 10 minutes.
 */
export async function dispatch(
  queue: TaskQueue,
  job: JobName,
  runs: readonly Turned[],
  overdue?: Overdue,
): Promise<void> {
  const clients = overdue?.waiting?.clients;
  const wanted = runs.filter(({ client }) => !clients?.get(job)?.has(client));
  if (wanted.length === 0) return;
  const bucketMs = clients === null ? crowdedBucketMs : overdueBucketMs;
  const bucket = overdue === undefined ? '' : `-overdue-${bucketMs}-${Math.floor(overdue.nowMs / bucketMs)}`;
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
