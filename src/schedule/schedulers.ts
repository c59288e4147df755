/**
 * The schedulers of BullMQ: one for each job, by its name. A scheduler fires at a fixed pace, and
 * each firing starts the runs of its job that are due. Nothing else is queued.
 */

import { type JobName, jobNames, pushJob } from '../../config/jobs.ts';
import type { Schedule } from '../../config/schedules.ts';
import type { TaskQueue } from './backend.ts';
import { findPhase } from './plan-next.ts';

/** When a scheduler fires: every `everyMs`, at `offsetMs` in it; null: at any. */
export interface Pace {
  readonly everyMs: number;
  readonly offsetMs: number | null;
}

/** The shortest pace of a scheduler that serves several clients. */
const minPaceMs = 1_000;
/** Maximum number of firings a second, of all schedulers together. */
const maxFirings = 10;
/**
 * A scheduler whose next firing is this long ago has lost its pending job in the queue, and never
 * fires again.
 */
const lostAfterMs = 120_000;

/**
 * Returns the pace of each scheduler, by the name of its job. With one client, a scheduler fires at
 * the turns of that client's job (for a cron expression: each minute, as late as the client is).
 * With several clients, it fires once for each of them in the interval, but at most once a second.
 * All together fire at most ten times a second: if they would more often, all get slower. A job
 * that no schedule makes due has no scheduler.
 */
export function planPaces(
  schedules: Readonly<Record<JobName, Schedule>>,
  clients: readonly string[],
  pushSweepMs: number | null,
): ReadonlyMap<string, Pace> {
  const paces = new Map<string, Pace>();
  for (const job of jobNames) {
    const phases = clients.map((client) => findPhase(schedules[job], { client, job }));
    const [first] = phases;
    if (first == null) continue;
    // BullMQ takes an offset of 0 for none.
    const single = { everyMs: first.everyMs, offsetMs: Math.max(1, first.phaseMs) };
    const everyMs = Math.max(minPaceMs, Math.round(first.everyMs / clients.length));
    paces.set(job, clients.length === 1 ? single : { everyMs, offsetMs: null });
  }
  if (pushSweepMs !== null) paces.set(pushJob.name, { everyMs: pushSweepMs, offsetMs: null });

  const firings = [...paces.values()].reduce((sum, { everyMs }) => sum + 1_000 / everyMs, 0);
  if (firings <= maxFirings) return paces;
  const factor = firings / maxFirings;
  const slower = [...paces].map(
    ([name, { everyMs }]) =>
      [name, { everyMs: Math.ceil(everyMs * factor), offsetMs: null }] as const,
  );
  return new Map(slower);
}

/** Returns true if a scheduler should have fired long ago. */
export const isLostScheduler = (next = 0): boolean => next < Date.now() - lostAfterMs;

/** Names of schedulers that do not fit. */
export interface Misfits {
  /** Those that must be set. */
  readonly set: string[];
  /** Those of `set` that the queue does not have, or that no longer fire. */
  readonly missing: string[];
  readonly removed: string[];
}

/**
 * Finds the schedulers of a queue that do not fit. Returns null if all do.
 * @param isExact false if faster and unknown schedulers stay: workers with other settings may have
 *   set them
 */
export async function findMisfits(
  queue: TaskQueue,
  wanted: ReadonlyMap<string, Pace>,
  isExact: boolean,
): Promise<Misfits | null> {
  const misfits: Misfits = { set: [], missing: [], removed: [] };
  const present = new Map(
    (await queue.getJobSchedulers(0, -1)).map((scheduler) => [scheduler.key, scheduler]),
  );

  for (const [name, { everyMs, offsetMs }] of wanted) {
    const { every, offset, next = 0 } = present.get(name) ?? {};
    const isLost = isLostScheduler(next);
    const isOffset = offsetMs === null || Number(offset) === offsetMs;
    const fits = isExact ? Number(every) === everyMs && isOffset : Number(every) <= everyMs;
    if (fits && !isLost) continue;
    misfits.set.push(name);
    if (isLost) misfits.missing.push(name);
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
  wanted: ReadonlyMap<string, Pace>,
  { set, removed }: Misfits,
): Promise<void> {
  // BullMQ does not apply another offset to a scheduler that exists.
  for (const name of [...set, ...removed]) await queue.removeJobScheduler(name);

  for (const name of set) {
    const { everyMs, offsetMs } = wanted.get(name) ?? { everyMs: 0, offsetMs: null };
    const repeat = { every: everyMs, ...(offsetMs === null ? {} : { offset: offsetMs }) };
    await queue.upsertJobScheduler(name, repeat, { name, opts: { attempts: 1 } });
  }
}
