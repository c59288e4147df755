import type { JobName } from '../../config/jobs.ts';
import type { TaskQueue } from './backend.ts';

/** The sweeper queues an overdue job again at most once in this time, whatever BullMQ believes to have queued already. */
const overdueBucketMs = 30_000;
/** The same interval if too many runs wait to read them all. */
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

/** The runs that wait in a queue, each as `job client`; or that there are too many to read them. */
export type WaitingRuns = ReadonlySet<string> | 'too many';

/** Maximum number of waiting runs that are read: each costs a query of the queue. */
const maxWaitingRead = 300;

/** Reads which runs wait in a queue. */
export async function readWaiting(queue: TaskQueue): Promise<WaitingRuns> {
  const { waiting = 0 } = await queue.getJobCounts();
  if (waiting > maxWaitingRead) return 'too many';
  const jobs = waiting === 0 ? [] : await queue.getJobs('waiting', 0, maxWaitingRead);
  return new Set(jobs.map(({ name, data }) => `${name} ${data.client}`));
}

/** How overdue runs are queued again. */
export interface OverdueOptions {
  readonly nowMs: number;
  /** Runs that are not queued again. Absent: none, as those to be queued have left the queue. */
  readonly waiting?: WaitingRuns;
}

/**
 * Queues one run for each of these clients, those that are not due yet with a delay; one that is queued for the same due
 * time, or running for it, is not queued twice. A run that comes twice all the same finds itself not due and ends at once.
 * @param overdue given by the sweeper. Its time is part of the mark against doubles. If BullMQ keeps a mark by mistake, the job
 *   runs with the next one. A run that waits in the queue is not queued again: if the workers cannot keep up, the queue holds
 *   each job of each client once. If too many runs wait, each overdue run is queued again every 10 minutes.
 */
export async function dispatch(
  queue: TaskQueue,
  job: JobName,
  runs: readonly Turned[],
  overdue?: OverdueOptions,
): Promise<void> {
  const waiting = overdue?.waiting;
  const wanted = waiting instanceof Set ? runs.filter(({ client }) => !waiting.has(`${job} ${client}`)) : runs;
  if (wanted.length === 0) return;
  const bucketMs = waiting === 'too many' ? crowdedBucketMs : overdueBucketMs;
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
