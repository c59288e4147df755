import { createHash } from 'node:crypto';
import { CronExpressionParser } from 'cron-parser';
import type { Schedule } from '../../../config/schedules.ts';

/** If the next due time is closer to the start than this share of the interval, it is skipped. */
const minShare = 0.1;
/**
 * After a time of the cron expression, the clients start within this span, each with a fixed
 * offset.
 */
const cronSpreadMs = 30_000;
/**
 * After a required gap between two runs, the clients start within this span, each with a fixed
 * offset.
 */
const gapSpreadMs = 20_000;
/** A due time that lies at most this long before the end of a gap is moved to that end. */
const earlyStartMs = 60_000;
/** Maximum number of missed runs that are counted. */
const maxMissed = 10_000;

/**
 * A job of one client. Each has different due times, so that not all runs begin at the same moment.
 */
export interface JobKey {
  readonly client: string;
  readonly job: string;
}

/**
 * Returns when the next run is due after one that starts `now`; null if the schedule never starts
 * one. For an interval, each client and job has a fixed phase, so that due times neither drift nor
 * meet. For a cron expression, each client has a fixed offset of up to half a minute.
 * @param now the time by the database's clock
 */
export function findNextDue(schedule: Schedule, now: Date, jobKey: JobKey): Date | null {
  if (schedule.kind === 'off' || schedule.kind === 'on-request') return null;
  if (schedule.kind === 'cron') {
    const offsetMs = Math.floor(toFraction(jobKey) * cronSpreadMs);
    const currentDate = new Date(now.getTime() - offsetMs);
    const tick = CronExpressionParser.parse(schedule.pattern, { currentDate, tz: 'UTC' })
      .next()
      .getTime();
    return new Date(tick + offsetMs);
  }
  const { everyMs, phaseMs, gapMs } = toInterval(schedule, jobKey);
  const earliestMs = now.getTime() + gapMs;
  return new Date(Math.ceil((earliestMs - phaseMs) / everyMs) * everyMs + phaseMs);
}

/**
 * Returns the interval of a schedule with the phase of a client and job, the minimum time from a
 * start to its next, and the interval up to which sync.end_run slows the job down; null: not at
 * all.
 */
export function toInterval(
  { everyMs, slowMs }: Extract<Schedule, { kind: 'every' }>,
  jobKey: JobKey,
) {
  return {
    everyMs,
    slowMs: slowMs ?? null,
    phaseMs: Math.floor(toFraction(jobKey) * everyMs),
    gapMs: everyMs * minShare,
  };
}

/**
 * Returns the first due time of the schedule at or after `earliest`. If the interval is not longer
 * than `gapMs`, the due time is `earliest` plus a few seconds, which differ by client, so that
 * clients that began together do not stay together.
 * @param gapMs required time between two runs, in milliseconds
 */
export function findDueNotBefore(
  schedule: Schedule,
  earliest: Date,
  gapMs: number,
  jobKey: JobKey,
): Date | null {
  if (schedule.kind === 'every' && schedule.everyMs <= gapMs)
    return new Date(earliest.getTime() + Math.floor(toFraction(jobKey) * gapSpreadMs));
  // A due time just before the end of the gap is moved to its end: an hourly job must not run only
  // every two hours.
  const share = schedule.kind === 'every' ? schedule.everyMs * minShare : 0;
  const dueAt = findNextDue(schedule, new Date(earliest.getTime() - earlyStartMs - share), jobKey);
  return dueAt === null ? null : new Date(Math.max(dueAt.getTime(), earliest.getTime()));
}

/**
 * Counts the times of a cron expression after `due`. One run replaces all of them, and reports
 * their number.
 */
export function countMissedTimes(
  { pattern }: Extract<Schedule, { kind: 'cron' }>,
  due: Date,
  now: Date,
): number {
  const dueTimes = CronExpressionParser.parse(pattern, { currentDate: due, tz: 'UTC' });
  let missed = 0;
  while (missed < maxMissed && dueTimes.next().getTime() <= now.getTime()) missed++;
  return missed;
}

/** Returns a number in [0, 1) that is always the same for a client and job. */
function toFraction({ client, job }: JobKey): number {
  return createHash('sha256').update(`${client}/${job}`).digest().readUInt32BE() / 2 ** 32;
}
