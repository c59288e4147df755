import type { JobName } from '../../../config/jobs.ts';
import type { Schedule } from '../../../config/schedules.ts';
import { hourMs, minuteMs } from '../../core/time.ts';
import type { JobStatus } from '../../erp/reports/job-status.ts';
import { findNextDue } from '../../queue/next-due.ts';

/** Bounds of the time that a job may be overdue before it is late: twice its interval, but within these bounds. */
const minGraceMs = minuteMs;
const maxGraceMs = 6 * hourMs;

/** A job whose last success is older than its schedule allows. */
export interface LateJob {
  readonly client: string;
  readonly job: string;
  /** Time of the last success; null if there was none. */
  readonly lastSuccessAt: Date | null;
  /** Time from which on the job is late. */
  readonly since: Date;
  readonly because: 'failing' | 'paused' | 'not run';
}

/**
 * Finds the jobs that are late by their schedule, the longest first. For a job without a success, the time counts from
 * the acceptance of its client's account. Its first run is never late while it is under way.
 * @param acceptedAt when the account of each client was accepted
 * @param now the database's clock, like the times in `jobs`
 */
export function findLateJobs(
  jobs: readonly JobStatus[],
  schedules: Readonly<Partial<Record<string, Schedule>>>,
  acceptedAt: ReadonlyMap<string, Date>,
  now: Date,
): LateJob[] {
  return jobs
    .flatMap((row): LateJob[] => {
      const schedule = schedules[row.job as JobName];
      const from = row.lastSuccessAt ?? acceptedAt.get(row.client);
      if (schedule === undefined || from === undefined) return [];
      if (row.lastSuccessAt === null && (row.running || isFirstRunAhead(row, now))) return [];
      const since = findLateSince(schedule, from, row);
      if (since === null || since > now) return [];
      const because = row.pausedSince !== null ? 'paused' : row.consecutiveFailures > 0 ? 'failing' : 'not run';
      return [{ client: row.client, job: row.job, lastSuccessAt: row.lastSuccessAt, since, because }];
    })
    .sort((one, other) => one.since.getTime() - other.since.getTime());
}

/** Returns true if the job has never run and is due later: its schedule may be younger than its client. */
const isFirstRunAhead = ({ dueAt, consecutiveFailures }: JobStatus, now: Date) =>
  consecutiveFailures === 0 && dueAt !== null && dueAt > now;

/** Returns the time from which on a job is late; null if its schedule never makes it due. */
function findLateSince(configured: Schedule, lastSuccessAt: Date, key: { client: string; job: string }): Date | null {
  // A job with two intervals may have slowed down to the longer one.
  const schedule: Schedule =
    configured.kind === 'every' ? { kind: 'every', everyMs: configured.slowMs ?? configured.everyMs } : configured;
  const due = findNextDue(schedule, lastSuccessAt, key);
  if (due === null) return null;
  const after = findNextDue(schedule, due, key) ?? due;
  const graceMs = Math.min(maxGraceMs, Math.max(minGraceMs, 2 * (after.getTime() - due.getTime())));
  return new Date(due.getTime() + graceMs);
}
