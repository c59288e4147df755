import type { Schedule } from '../../config/schedules.ts';
import type { TaskQueue } from './backend.ts';
import { tickName } from './define-job.ts';

/** Maximum time between two ticks. A cron expression is exact to the minute. */
const maxTickMs = 60_000;

/**
 * Returns the interval of the tick, which starts the jobs of all schedules: the shortest interval among them, at most a
 * minute. Returns null if no job is started by its schedule.
 */
export function findTickMs(schedules: readonly Schedule[]): number | null {
  const spans = schedules.flatMap((schedule) => {
    if (schedule.kind === 'every') return [schedule.everyMs];
    return schedule.kind === 'cron' ? [maxTickMs] : [];
  });
  return spans.length === 0 ? null : Math.min(maxTickMs, ...spans);
}

/** The changes that make the schedulers of a queue fit. */
export interface SchedulerChanges {
  /** True if the tick has no scheduler, or one with another interval. */
  readonly set: boolean;
  /** True if the tick had no scheduler: at the first start, or after the queue was emptied. */
  readonly missing: boolean;
  /** Schedulers to remove, by name. */
  readonly removed: readonly string[];
}

/**
 * Finds what makes the schedulers of a queue differ from the only one it should have: the tick.
 * @param tickMs interval of the tick; null if the queue should have none
 */
export async function findSchedulerChanges(queue: TaskQueue, tickMs: number | null): Promise<SchedulerChanges> {
  const present = await queue.getJobSchedulers(0, -1);
  const tick = present.find(({ key }) => key === tickName);
  const isSet = tick !== undefined && Number(tick.every) === tickMs;
  const unwanted = present.filter(({ key }) => key !== tickName || tickMs === null);
  return {
    set: tickMs !== null && !isSet,
    missing: tickMs !== null && tick === undefined,
    removed: unwanted.map(({ key }) => key),
  };
}

/** Returns true if there is anything to change. */
export const hasChanges = ({ set, removed }: SchedulerChanges): boolean => set || removed.length > 0;

/**
 * Aligns the schedulers of a queue. It changes only what differs, because BullMQ fires a changed interval at once. Only
 * one process at a time may call it, since it takes no lock.
 */
export async function alignSchedulers(queue: TaskQueue, tickMs: number | null): Promise<SchedulerChanges> {
  const changes = await findSchedulerChanges(queue, tickMs);
  if (changes.set && tickMs !== null)
    await queue.upsertJobScheduler(tickName, { every: tickMs }, { name: tickName, data: {}, opts: { attempts: 1 } });
  for (const key of changes.removed) await queue.removeJobScheduler(key);
  return changes;
}
