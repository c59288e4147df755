import { createHash } from 'node:crypto';
import { CronExpressionParser } from 'cron-parser';
import type { Schedule } from '../../config/schedules.ts';

/** A turn that comes sooner than this share of the interval after a start is left out. */
const minShare = 0.1;
/** The clients start within this time after a moment of their cron expression, each at an offset of its own. */
const cronSpreadMs = 30_000;
const maxReachMs = 600_000;
const gapSpreadMs = 20_000;
const justCoveredMs = 60_000;
/** Missed turns are counted up to here. */
const maxMissed = 10_000;

/** What is scheduled: each client has turns of its own, so that not all begin at the same moment. */
export interface Turn {
  readonly client: string;
  readonly job: string;
}

/**
 * When the run after one that starts `now` is due; null for never by itself. An interval has a fixed phase for each client
 * and job, so that turns neither drift nor gather; a cron expression is followed within half a minute.
 * @param now by the database's clock
 */
export function nextDue(schedule: Schedule, now: Date, turn: Turn): Date | null {
  if (schedule.kind === 'off' || schedule.kind === 'on-request') return null;
  if (schedule.kind === 'cron') {
    const offsetMs = Math.floor(fraction(turn) * cronSpreadMs);
    const currentDate = new Date(now.getTime() - offsetMs);
    const tick = CronExpressionParser.parse(schedule.pattern, { currentDate, tz: 'UTC' }).next().getTime();
    return new Date(tick + offsetMs);
  }
  const { everyMs } = schedule;
  const phaseMs = Math.floor(fraction(turn) * everyMs);
  const earliestMs = now.getTime() + everyMs * minShare;
  return new Date(Math.ceil((earliestMs - phaseMs) / everyMs) * everyMs + phaseMs);
}

/**
 * When the schedule has a run at or after `earliest`; within moments of it where its turns come no further apart than
 * `gapMs`, which is what has to lie between two runs: how many moments is each client's own, so that those which began
 * together do not stay together.
 */
export function dueNotBefore(schedule: Schedule, earliest: Date, gapMs: number, turn: Turn): Date | null {
  if (schedule.kind === 'every' && schedule.everyMs <= gapMs)
    return new Date(earliest.getTime() + Math.floor(fraction(turn) * gapSpreadMs));
  // A turn that the gap only just covers is taken when it opens: hourly turns must not become two-hourly ones.
  const share = schedule.kind === 'every' ? schedule.everyMs * minShare : 0;
  const turnAt = nextDue(schedule, new Date(earliest.getTime() - justCoveredMs - share), turn);
  return turnAt === null ? null : new Date(Math.max(turnAt.getTime(), earliest.getTime()));
}

/** How far ahead a tick looks: what is due within this time is queued with a delay, the rest is left to the next tick or the sweeper. */
export function tickReachMs(schedule: Schedule): number {
  if (schedule.kind === 'cron') return cronSpreadMs;
  return schedule.kind === 'every' ? Math.min(schedule.everyMs, maxReachMs) : 0;
}

/** How many turns have gone by since `due`, that one not counted: they are made good by one run, and named. */
export function missedTurns(schedule: Schedule, due: Date, now: Date): number {
  if (schedule.kind === 'every')
    return Math.max(0, Math.min(maxMissed, Math.floor((now.getTime() - due.getTime()) / schedule.everyMs)));
  if (schedule.kind !== 'cron') return 0;
  const turns = CronExpressionParser.parse(schedule.pattern, { currentDate: due, tz: 'UTC' });
  let missed = 0;
  while (missed < maxMissed && turns.next().getTime() <= now.getTime()) missed++;
  return missed;
}

/** A number in [0, 1) that is always the same for a client and job. */
function fraction({ client, job }: Turn): number {
  return createHash('sha256').update(`${client}/${job}`).digest().readUInt32BE() / 2 ** 32;
}
