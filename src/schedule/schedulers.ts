import type { Schedule } from '../../config/schedules.ts';
import type { TaskQueue } from './backend.ts';

/**
 * Maximum time between two firings of a scheduler. The queue holds no run that is due later than
 * that.
 */
const maxFiringMs = 600_000;
/**
 * A scheduler whose next firing is this long ago has lost its pending job in the queue, and never
 * fires again.
 */
const lostAfterMs = 120_000;

/**
 * Returns the time between two firings of the scheduler of a job: its interval, at most ten
 * minutes. Returns null if the schedule starts no run.
 */
export function findFiringMs(schedule: Schedule): number | null {
  if (schedule.kind === 'every') return Math.min(maxFiringMs, schedule.everyMs);
  return schedule.kind === 'cron' ? maxFiringMs : null;
}

/** Names of schedulers that do not fit. */
export interface Misfits {
  /** Those that must be set. */
  readonly set: string[];
  /** Those of `set` that the queue has lost, with or without their entry. */
  readonly lost: string[];
  readonly removed: string[];
}

/**
 * Finds the schedulers of a queue that do not fit. Returns null if all do.
 * @param wanted the milliseconds between two firings, by the name of the job
 * @param isExact false if shorter intervals and unknown schedulers stay: workers with other
 *   settings may have set them
 */
export async function findMisfits(
  queue: TaskQueue,
  wanted: ReadonlyMap<string, number>,
  isExact: boolean,
): Promise<Misfits | null> {
  const misfits: Misfits = { set: [], lost: [], removed: [] };
  const present = new Map(
    (await queue.getJobSchedulers(0, -1)).map((scheduler) => [scheduler.key, scheduler]),
  );
  for (const [name, everyMs] of wanted) {
    const { every, next = 0 } = present.get(name) ?? {};
    const isLost = next < Date.now() - lostAfterMs;
    if (!isLost && (Number(every) === everyMs || (!isExact && Number(every) < everyMs))) continue;
    misfits.set.push(name);
    if (isLost) misfits.lost.push(name);
  }
  if (isExact) for (const name of present.keys()) if (!wanted.has(name)) misfits.removed.push(name);
  return misfits.set.length + misfits.removed.length > 0 ? misfits : null;
}

/**
 * Makes the schedulers of a queue fit. Changes only what differs: an upsert deletes and adds the
 * pending job. Only one process at a time may call it, and has to find the misfits anew: it takes
 * no lock.
 */
export async function alignSchedulers(
  queue: TaskQueue,
  wanted: ReadonlyMap<string, number>,
  { set, removed }: Misfits,
): Promise<void> {
  for (const name of set)
    await queue.upsertJobScheduler(
      name,
      { every: wanted.get(name) ?? 0 },
      { name, data: {}, opts: { attempts: 1 } },
    );
  for (const name of removed) await queue.removeJobScheduler(name);
}

/**
 * Added to each delay. Otherwise a run could begin before its due time by the database's clock, and
 * would be skipped.
 */
const marginMs = 50;
/**
 * Number of runs that are added at once. Until they are added, the queue in Postgres delivers no
 * other run.
 */
const bulkSize = 50;

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
 * Queues runs. Runs that are not due yet get a delay. BullMQ keeps a mark for each due time, so
 * that two firings do not queue a run twice. If that happens anyway, the second one is not due and
 * ends at once.
 */
export async function queueRuns(queue: TaskQueue, runs: readonly DueRun[]): Promise<void> {
  const foundAtMs = performance.now();
  for (let first = 0; first < runs.length; first += bulkSize) {
    const waitedMs = performance.now() - foundAtMs;
    await queue.addBulk(
      runs.slice(first, first + bulkSize).map(({ job, client, inMs, dueMs }) => ({
        name: job,
        data: { client },
        opts: {
          attempts: 1,
          deduplication: { id: `${job}/${client}/${dueMs}` },
          ...(inMs > waitedMs ? { delay: Math.ceil(inMs - waitedMs) + marginMs } : {}),
        },
      })),
    );
  }
}
