import type { JobName } from '../../config/jobs.ts';
import type { TaskQueue } from './backend.ts';

/** Interval in which the sweeper queues an overdue run at most once, even if BullMQ still has a mark for that run. */
const overdueBucketMs = 30_000;
/** The same interval if too many runs wait to be read. */
const crowdedBucketMs = 600_000;
/**
 * Added to each delay. Otherwise a run could begin before its due time by the database's clock, and would be skipped.
 */
const marginMs = 50;

/** A run to queue. */
export interface DueRun {
  readonly job: JobName;
  readonly client: string;
  /** Milliseconds until the run is due; 0 or less: now. */
  readonly inMs: number;
  /** Due time in milliseconds since 1970. */
  readonly dueMs: number;
}

/** The runs that wait in a queue, each as `job client`, or 'too many' if they are too many to be read. */
export type WaitingRuns = ReadonlySet<string> | 'too many';

/** Maximum number of waiting runs that are read. Each costs a query of the queue. */
const maxWaitingRead = 300;

/** Reads the runs that wait in a queue. */
export async function readWaitingRuns(queue: TaskQueue): Promise<WaitingRuns> {
  const { waiting = 0 } = await queue.getJobCounts();
  if (waiting > maxWaitingRead) return 'too many';
  const jobs = waiting === 0 ? [] : await queue.getJobs('waiting', 0, maxWaitingRead);
  return new Set(jobs.map(({ name, data }) => `${name} ${data.client}`));
}

/** How overdue runs are queued again. */
export interface OverdueOptions {
  readonly nowMs: number;
  /** Runs that wait and are not queued again. Absent if the runs to queue cannot be waiting. */
  readonly waiting?: WaitingRuns;
}

/**
 * Queues runs. Runs that are not due yet get a delay. BullMQ's deduplication mark keeps a run from being
 * queued twice for the same due time. If a run is queued twice anyway, the second one is not due and ends at once.
 * @param overdue set by the sweeper. Its time is part of the deduplication mark: if BullMQ keeps a mark by mistake,
 *   the next mark lets the run through. A run that waits in the queue is not queued again, so that the queue holds each
 *   job of each client once, even if the workers cannot keep up. If too many runs wait, an overdue run is queued every
 *   10 minutes.
 */
export async function dispatchRuns(queue: TaskQueue, runs: readonly DueRun[], overdue?: OverdueOptions): Promise<void> {
  const waiting = overdue?.waiting;
  const wanted = waiting instanceof Set ? runs.filter(({ job, client }) => !waiting.has(`${job} ${client}`)) : runs;
  if (wanted.length === 0) return;
  const bucketMs = waiting === 'too many' ? crowdedBucketMs : overdueBucketMs;
  const bucket = overdue === undefined ? '' : `-overdue-${bucketMs}-${Math.floor(overdue.nowMs / bucketMs)}`;
  await queue.addBulk(
    wanted.map(({ job, client, inMs, dueMs }) => ({
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
