import type { JobName } from '../../config/jobs.ts';
import type { Schedule } from '../../config/schedules.ts';
import { isOlder } from '../core/version.ts';
import type { SchedulerEntry, TaskQueue } from './backend.ts';

export interface SchedulerPlan {
  readonly job: JobName;
  readonly schedule: Schedule;
}

/** What was done to the schedulers of one queue, by job. */
export interface SchedulerChanges {
  readonly set: readonly string[];
  /** Those of them that were not there at all: at the first start, or after the queue was emptied. */
  readonly missing: readonly string[];
  readonly removed: readonly string[];
}

/**
 * Makes the schedulers of a queue what the plan says: one per job, whose tick finds the clients due. Touches only what
 * differs, as BullMQ fires a changed interval at once. Run by one process at a time (it takes no lock of its own).
 * What a newer version set is left alone, so that old and new workers side by side do not fight.
 */
export async function alignSchedulers(
  queue: TaskQueue,
  plan: readonly SchedulerPlan[],
  version: string,
): Promise<SchedulerChanges> {
  const present = new Map((await queue.getJobSchedulers(0, -1)).map((entry) => [entry.key, entry]));
  const wanted = new Map(
    plan.filter(({ schedule }) => repeatOf(schedule) !== null).map((entry) => [entry.job as string, entry]),
  );
  const set: string[] = [];
  const missing: string[] = [];
  for (const [job, { schedule }] of wanted) {
    const entry = present.get(job);
    if (matches(entry, schedule) || isOlder(version, entry?.template?.data?.version ?? version)) continue;
    const repeat = repeatOf(schedule);
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

function repeatOf(schedule: Schedule): { every: number } | { pattern: string; tz: string } | null {
  if (schedule.kind === 'every') return { every: schedule.everyMs };
  return schedule.kind === 'cron' ? { pattern: schedule.pattern, tz: 'UTC' } : null;
}

function matches(entry: SchedulerEntry | undefined, schedule: Schedule): boolean {
  if (entry === undefined) return false;
  if (schedule.kind === 'every') return Number(entry.every) === schedule.everyMs;
  return schedule.kind === 'cron' && entry.pattern === schedule.pattern;
}
