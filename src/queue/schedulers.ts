import type { Schedule } from '../../config/schedules.ts';
import type { TaskQueue } from './backend.ts';

/** Maximum time between two firings of a scheduler. The queue holds no run that is due later than that. */
const maxFiringMs = 600_000;
/** A scheduler whose next firing is this long ago has lost its pending job in the queue, and never fires again. */
const lostAfterMs = 120_000;

/** A scheduler that the queue should have: the name of its job, and the time between two firings. */
export interface WantedScheduler {
  readonly name: string;
  readonly everyMs: number;
}

/**
 * Returns the time between two firings of the scheduler of a job: its interval, at most ten minutes. Returns null if the
 * schedule starts no run.
 */
export function findFiringMs(schedule: Schedule): number | null {
  if (schedule.kind === 'every') return Math.min(maxFiringMs, schedule.everyMs);
  return schedule.kind === 'cron' ? maxFiringMs : null;
}

/** The changes that make the schedulers of a queue fit. */
export interface SchedulerChanges {
  readonly set: readonly WantedScheduler[];
  /** Names of those of `set` that the queue had lost, with or without their entry. */
  readonly lost: readonly string[];
  /** Names of schedulers to remove. */
  readonly removed: readonly string[];
}

/**
 * Finds how the schedulers of a queue differ from those it should have.
 * @param mayLengthen false if a shorter interval in the queue and unknown schedulers stay: workers with other settings
 *   may have set them
 */
export async function findSchedulerChanges(
  queue: TaskQueue,
  wanted: readonly WantedScheduler[],
  mayLengthen: boolean,
): Promise<SchedulerChanges> {
  const present = new Map((await queue.getJobSchedulers(0, -1)).map((entry) => [entry.key, entry]));
  const isLost = ({ name }: WantedScheduler) => (present.get(name)?.next ?? 0) < Date.now() - lostAfterMs;
  const differs = ({ name, everyMs }: WantedScheduler) => {
    const presentMs = Number(present.get(name)?.every);
    return mayLengthen ? presentMs !== everyMs : !(presentMs <= everyMs);
  };
  const names = new Set(wanted.map(({ name }) => name));
  return {
    set: wanted.filter((one) => isLost(one) || differs(one)),
    lost: wanted.filter(isLost).map(({ name }) => name),
    removed: mayLengthen ? [...present.keys()].filter((name) => !names.has(name)) : [],
  };
}

/** Returns true if there is anything to change. */
export const hasChanges = ({ set, removed }: SchedulerChanges): boolean => set.length + removed.length > 0;

/**
 * Makes the schedulers of a queue fit. Changes only what differs: an upsert deletes and adds the pending job. Only one
 * process at a time may call it, since it takes no lock.
 */
export async function alignSchedulers(queue: TaskQueue, { set, removed }: SchedulerChanges): Promise<void> {
  for (const { name, everyMs } of set)
    await queue.upsertJobScheduler(name, { every: everyMs }, { name, data: {}, opts: { attempts: 1 } });
  for (const name of removed) await queue.removeJobScheduler(name);
}

/** Added to each delay. Otherwise a run could begin before its due time by the database's clock, and would be skipped. */
const marginMs = 50;

/** A run to queue. */
export interface DueRun {
  readonly job: string;
  readonly client: string;
  /** Milliseconds until the run is due; 0 or less: now. */
  readonly inMs: number;
  /** Due time in milliseconds since 1970. */
  readonly dueMs: number;
}

/**
 * Queues runs. Runs that are not due yet get a delay. BullMQ keeps a mark for each due time, so that two firings do not
 * queue a run twice. If that happens anyway, the second one is not due and ends at once.
 */
export async function queueRuns(queue: TaskQueue, runs: readonly DueRun[]): Promise<void> {
  if (runs.length === 0) return;
  await queue.addBulk(
    runs.map(({ job, client, inMs, dueMs }) => ({
      name: job,
      data: { client },
      opts: {
        attempts: 1,
        deduplication: { id: `${job}/${client}/${dueMs}` },
        ...(inMs > 0 ? { delay: Math.ceil(inMs) + marginMs } : {}),
      },
    })),
  );
}
