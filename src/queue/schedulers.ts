import type { JobName } from '../../config/jobs.ts';
import type { Schedule } from '../../config/schedules.ts';
import { isOlder } from '../core/version.ts';
import type { SchedulerEntry, TaskQueue } from './backend.ts';

/** A job and its schedule, as the queue should have it. */
export interface SchedulerPlan {
  readonly job: JobName;
  readonly schedule: Schedule;
}

/** The changes to the schedulers of one queue, as names of jobs. */
export interface SchedulerChanges {
  readonly set: readonly string[];
  /** The jobs of `set` that had no scheduler: at the first start, or after the queue was emptied. */
  readonly missing: readonly string[];
  readonly removed: readonly string[];
}

/**
 * Aligns the schedulers of a queue with the plan: one per job, whose tick finds the clients that are due. It changes
 * only schedulers that differ, because BullMQ fires a changed interval at once. Only one process at a time may call it,
 * since it takes no lock. Schedulers of a newer version stay unchanged, so that old and new workers do not overwrite
 * each other.
 */
export async function alignSchedulers(
  queue: TaskQueue,
  plan: readonly SchedulerPlan[],
  version: string,
): Promise<SchedulerChanges> {
  const present = new Map((await queue.getJobSchedulers(0, -1)).map((entry) => [entry.key, entry]));
  const wanted = new Map(
    plan.filter(({ schedule }) => toRepeat(schedule) !== null).map((entry) => [entry.job as string, entry]),
  );
  const set: string[] = [];
  const missing: string[] = [];
  for (const [job, { schedule }] of wanted) {
    const entry = present.get(job);
    if (hasSchedule(entry, schedule) || isOlder(version, entry?.template?.data?.version ?? version)) continue;
    const repeat = toRepeat(schedule);
    if (repeat === null) continue;
    await queue.upsertJobScheduler(job, repeat, { name: job, data: { version }, opts: { attempts: 1 } });
    set.push(job);
    if (entry === undefined) missing.push(job);
  }
  const removed: string[] = [];
  for (const [job, entry] of present) {
    if (wanted.has(job) || isOlder(version, entry.template?.data?.version ?? version)) continue;
    await queue.removeJobScheduler(job);
    removed.push(job);
  }
  return { set, missing, removed };
}

function toRepeat(schedule: Schedule): { every: number } | { pattern: string; tz: string } | null {
  if (schedule.kind === 'every') return { every: schedule.everyMs };
  return schedule.kind === 'cron' ? { pattern: schedule.pattern, tz: 'UTC' } : null;
}

function hasSchedule(entry: SchedulerEntry | undefined, schedule: Schedule): boolean {
  if (entry === undefined) return false;
  if (schedule.kind === 'every') return Number(entry.every) === schedule.everyMs;
  return schedule.kind === 'cron' && entry.pattern === schedule.pattern;
}
