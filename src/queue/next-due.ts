import { CronExpressionParser } from 'cron-parser';
import type { Schedule } from '../../config/schedules.ts';

/** A run starts a moment after its tick; due this much before the next one, it does not miss that. */
const maxSlackMs = 2_000;

/**
 * When the run after one that starts `now` is due; null for never by itself.
 * @param now by the database's clock
 */
export function nextDue(schedule: Schedule, now: Date): Date | null {
  if (schedule.kind === 'off' || schedule.kind === 'on-request') return null;
  if (schedule.kind === 'cron') {
    return CronExpressionParser.parse(schedule.pattern, { currentDate: now, tz: 'UTC' }).next().toDate();
  }
  const slackMs = Math.min(schedule.everyMs * 0.05, maxSlackMs);
  return new Date(now.getTime() + schedule.everyMs - slackMs);
}
