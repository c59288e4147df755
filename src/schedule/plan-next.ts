/** When jobs are due. Every due time is computed here; SQL only stores it, or says "now". */

import { createHash } from 'node:crypto';
import { CronExpressionParser } from 'cron-parser';
import type { Schedule } from '../../config/schedules.ts';
import { growPauseMs, pauses } from '../core/backoff.ts';
import { minuteMs } from '../core/time.ts';

/**
 * A job of one client. Each has different due times, so that not all runs begin at the same moment.
 */
export interface JobKey {
  readonly client: string;
  readonly job: string;
}

/** What a due time follows from. All times are by the database's clock. */
export type Occasion =
  /** A run begins. The job is due again at the next turn of its schedule. */
  | { readonly kind: 'begin'; readonly at: Date }
  /** A run says when the job may be due at the earliest, and how long that is after a run. */
  | { readonly kind: 'own-pace'; readonly earliest: Date; readonly gapMs: number }
  /**
   * A run ends well. `turnAt` is the turn that its beginning planned, `movedAt` the last time that
   * something moved; null: never.
   */
  | {
      readonly kind: 'done';
      readonly at: Date;
      readonly turnAt: Date | null;
      readonly movedAt: Date | null;
    }
  /**
   * A run fails, for the `failures`-th time in a row. It is tried again before its turn `turnAt`,
   * unless `isRetried` is false, but not before the service's Retry-After has passed.
   */
  | {
      readonly kind: 'failed';
      readonly at: Date;
      readonly turnAt: Date | null;
      readonly failures: number;
      readonly retryAfterMs: number;
      readonly isRetried: boolean;
    };

/** If a turn is closer to the beginning of a run than this share of the interval, it is skipped. */
const minShare = 0.1;
/** After a time of a cron expression, the clients start within this span. */
const cronSpreadMs = 30_000;
/** After a required gap between two runs, the clients start within this span. */
const gapSpreadMs = 20_000;
/** A turn that lies at most this long before the end of a gap is moved to that end. */
const earlyStartMs = 60_000;
/**
 * Maximum number of missed turns that are counted: of an interval, and of a cron expression, of
 * which each turn takes up to some milliseconds. Every look for due runs counts those of all.
 */
const [maxMissed, maxMissedOfCron] = [10_000, 100];
/** A job with two intervals runs after this share of the time for which nothing has moved. */
const idleShare = 0.01;

/** Returns when a job is due next; null if nothing but a request makes it due. */
export function planNext(schedule: Schedule, key: JobKey, occasion: Occasion): Date | null {
  switch (occasion.kind) {
    case 'begin':
      return findTurn(schedule, key, occasion.at);
    case 'own-pace':
      return findTurnAfterGap(schedule, key, occasion.earliest, occasion.gapMs);
    case 'done':
      return slowDown(schedule, occasion);
    case 'failed':
      return planRetry(occasion);
  }
}

/**
 * Returns when a job with two intervals is due if something moves after the beginning of its run;
 * null for other schedules.
 */
export const planSoon = (schedule: Schedule, begunAt: Date): Date | null =>
  schedule.kind === 'every' && schedule.slowMs !== undefined
    ? new Date(begunAt.getTime() + schedule.everyMs)
    : null;

/**
 * Counts the turns between `wasDueAt` and `now`. One run replaces all of them, and reports their
 * number.
 */
export function countMissed(schedule: Schedule, wasDueAt: Date, now: Date): number {
  if (schedule.kind === 'every')
    return Math.min(maxMissed, Math.floor((now.getTime() - wasDueAt.getTime()) / schedule.everyMs));
  if (schedule.kind !== 'cron') return 0;
  const turns = CronExpressionParser.parse(schedule.pattern, { currentDate: wasDueAt, tz: 'UTC' });

  let missed = 0;
  while (missed < maxMissedOfCron && turns.next().getTime() <= now.getTime()) missed++;
  return missed;
}

/**
 * Returns the first turn after a run that begins at `from`. For an interval, each client and job
 * has a fixed phase, so that turns neither drift nor meet. For a cron expression, each client has a
 * fixed offset of up to half a minute.
 */
function findTurn(schedule: Schedule, key: JobKey, from: Date): Date | null {
  const phase = findPhase(schedule, key);
  if (phase === null) return null;
  const { everyMs, phaseMs } = phase;

  if (schedule.kind === 'cron') {
    const currentDate = new Date(from.getTime() - phaseMs);
    const times = CronExpressionParser.parse(schedule.pattern, { currentDate, tz: 'UTC' });
    return new Date(times.next().getTime() + phaseMs);
  }

  const earliestMs = from.getTime() + everyMs * minShare;
  return new Date(Math.ceil((earliestMs - phaseMs) / everyMs) * everyMs + phaseMs);
}

/**
 * Returns the first turn at or after `earliest`. If the interval is not longer than `gapMs`, that
 * is `earliest` plus a few seconds, which differ by client, so that clients that began together do
 * not stay together.
 */
function findTurnAfterGap(
  schedule: Schedule,
  key: JobKey,
  earliest: Date,
  gapMs: number,
): Date | null {
  if (schedule.kind === 'every' && schedule.everyMs <= gapMs)
    return new Date(earliest.getTime() + toPhaseMs(key, gapSpreadMs));

  // A turn just before the end of the gap is moved to its end: an hourly job must not run only
  // every two hours.
  const share = schedule.kind === 'every' ? schedule.everyMs * minShare : 0;
  const turn = findTurn(schedule, key, new Date(earliest.getTime() - earlyStartMs - share));
  return turn === null ? null : new Date(Math.max(turn.getTime(), earliest.getTime()));
}

/**
 * Returns the turn of a job after a run that is done. A job with two intervals skips turns of the
 * shorter one while nothing moves, up to the longer one: so clients keep their phases.
 */
function slowDown(
  schedule: Schedule,
  { at, turnAt, movedAt }: Extract<Occasion, { kind: 'done' }>,
): Date | null {
  // A job that somebody made due meanwhile stays so.
  if (turnAt === null || turnAt <= at || schedule.kind !== 'every' || schedule.slowMs === undefined)
    return turnAt;

  const { everyMs, slowMs } = schedule;
  const idleMs = movedAt === null ? Number.POSITIVE_INFINITY : at.getTime() - movedAt.getTime();
  const paceMs = Math.max(everyMs, Math.min(slowMs, idleMs * idleShare));
  return new Date(turnAt.getTime() + everyMs * (Math.floor(paceMs / everyMs) - 1));
}

/** Returns when a run that failed is tried again. */
function planRetry(occasion: Extract<Occasion, { kind: 'failed' }>): Date | null {
  const { at, turnAt, failures, retryAfterMs, isRetried } = occasion;
  const retryMs = isRetried
    ? at.getTime() + growPauseMs(pauses.failedRun, failures)
    : Number.POSITIVE_INFINITY;
  const firstMs = Math.min(turnAt?.getTime() ?? Number.POSITIVE_INFINITY, retryMs);
  if (!Number.isFinite(firstMs)) return null;
  return new Date(Math.max(firstMs, at.getTime() + retryAfterMs));
}

/**
 * Returns the times at which a job of a client can be due by its schedule: each `everyMs`,
 * `phaseMs` later than the multiples of it. Times of a cron expression are whole minutes. Null for
 * other schedules.
 */
export function findPhase(
  schedule: Schedule,
  key: JobKey,
): { readonly everyMs: number; readonly phaseMs: number } | null {
  if (schedule.kind === 'cron') return { everyMs: minuteMs, phaseMs: toPhaseMs(key, cronSpreadMs) };
  if (schedule.kind !== 'every') return null;
  return { everyMs: schedule.everyMs, phaseMs: toPhaseMs(key, schedule.everyMs) };
}

/** Returns a part of a span that is always the same for a client and job, in milliseconds. */
function toPhaseMs({ client, job }: JobKey, spanMs: number): number {
  const hash = createHash('sha256').update(`${client}/${job}`).digest().readUInt32BE();
  return Math.floor((hash / 2 ** 32) * spanMs);
}
