import type { JobName } from '../../../config/jobs.ts';
import type { Schedule } from '../../../config/schedules.ts';
import { hourMs, minuteMs } from '../../core/time.ts';
import type { JobStatus } from '../../erp/reports/job-status.ts';
import { nextDue } from '../../queue/next-due.ts';

/** A turn may be so late before it is worth a word: twice the span between two turns, within these bounds. */
const leastGraceMs = minuteMs;
const mostGraceMs = 6 * hourMs;

/** A job that should have got done, and did not. */
export interface StaleJob {
  readonly client: string;
  readonly job: string;
  /** Last success; null: there was none. */
  readonly lastSuccessAt: Date | null;
  /** From when on it was late. */
  readonly since: Date;
  readonly because: 'failing' | 'paused' | 'not run';
}

/**
 * The jobs that are late by their schedule, longest first. A job that never got done is measured from when its client
 * came, but not while its first run is reading.
 * @param now by the database's clock, as the times in `jobs`
 * @param cameAt when each client came here
 */
export function findStale(
  jobs: readonly JobStatus[],
  schedules: Readonly<Partial<Record<string, Schedule>>>,
  cameAt: ReadonlyMap<string, Date>,
  now: Date,
): StaleJob[] {
  return jobs
    .flatMap((row): StaleJob[] => {
      const schedule = schedules[row.job as JobName];
      const from = row.lastSuccessAt ?? cameAt.get(row.client);
      if (schedule === undefined || from === undefined) return [];
      if (row.lastSuccessAt === null && (row.running || isStillToCome(row, now))) return [];
      const since = lateFrom(schedule, from, row);
      if (since === null || since > now) return [];
      const because = row.pausedSince !== null ? 'paused' : row.consecutiveFailures > 0 ? 'failing' : 'not run';
      return [{ client: row.client, job: row.job, lastSuccessAt: row.lastSuccessAt, since, because }];
    })
    .sort((one, other) => one.since.getTime() - other.since.getTime());
}

/** Never run yet, and its first turn is ahead: its schedule may be younger than its client. */
const isStillToCome = ({ dueAt, consecutiveFailures }: JobStatus, now: Date) =>
  consecutiveFailures === 0 && dueAt !== null && dueAt > now;

function lateFrom(schedule: Schedule, lastSuccessAt: Date, turn: { client: string; job: string }): Date | null {
  const due = nextDue(schedule, lastSuccessAt, turn);
  if (due === null) return null;
  const after = nextDue(schedule, due, turn) ?? due;
  const graceMs = Math.min(mostGraceMs, Math.max(leastGraceMs, 2 * (after.getTime() - due.getTime())));
  return new Date(due.getTime() + graceMs);
}
