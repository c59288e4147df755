import type { TaskQueue } from '../../schedule/backend.ts';
import { isLostScheduler } from '../../schedule/schedulers.ts';

/** A scheduler of BullMQ, and what its latest firings did. */
export interface SchedulerState {
  /** Name of its job. */
  readonly name: string;
  readonly everyMs: number;
  readonly nextAt: Date | null;
  /** True if the queue has lost its pending job. A worker sets it again within a minute. */
  readonly isLost: boolean;
  /** End of the last firing that the queue keeps; null if it keeps none. */
  readonly lastAt: Date | null;
  /** Number of failed firings that the queue keeps. */
  readonly failures: number;
  readonly lastFailure: { readonly at: Date; readonly words: string } | null;
}

/** Reads the schedulers of a queue, the next first. */
export async function readSchedulers(queue: TaskQueue): Promise<SchedulerState[]> {
  const [schedulers, ended] = [
    await queue.getJobSchedulers(0, -1),
    await queue.getJobs(['completed', 'failed']),
  ];
  const latest = ended.toSorted((one, other) => (other.finishedOn ?? 0) - (one.finishedOn ?? 0));

  const states = schedulers.map(({ key: name, every, next }): SchedulerState => {
    const ours = latest.filter((job) => job.name === name);
    const failed = ours.filter(({ failedReason }) => Boolean(failedReason));
    const [last] = ours;
    const [failure] = failed;
    return {
      name,
      everyMs: Number(every),
      nextAt: toDate(next),
      isLost: isLostScheduler(next),
      lastAt: toDate(last?.finishedOn),
      failures: failed.length,
      lastFailure:
        failure === undefined
          ? null
          : { at: new Date(failure.finishedOn ?? 0), words: failure.failedReason },
    };
  });
  return states.toSorted((one, other) => Number(one.nextAt) - Number(other.nextAt));
}

const toDate = (ms: number | undefined) => (ms === undefined ? null : new Date(ms));
