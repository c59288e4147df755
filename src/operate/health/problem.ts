/** What a problem is, for `status`, the pages, metrics and alerts. */

import { styleText } from 'node:util';
import { toVisible } from '../../core/quote.ts';
import { dayMs, formatSpan, minuteMs } from '../../core/time.ts';

type Severity = 'bad' | 'warn' | 'note';

/**
 * Stable names of all problems, their severity, and whether everybody sees them, or only who has
 * its clients and jobs.
 */
const problemCodes = {
  alerts_undelivered: ['warn', 'everybody'],
  client_parked: ['bad', 'everybody'],
  clock_wrong: ['bad', 'everybody'],
  credentials_refused: ['bad', 'configured'],
  database_changed: ['bad', 'everybody'],
  database_full: ['bad', 'everybody'],
  database_is_copy: ['note', 'everybody'],
  database_read_only: ['bad', 'everybody'],
  events_missed: ['bad', 'everybody'],
  events_undelivered: ['warn', 'everybody'],
  feed_late: ['bad', 'everybody'],
  job_failing: ['warn', 'configured'],
  job_late: ['bad', 'configured'],
  job_paused: ['note', 'everybody'],
  job_skipped: ['note', 'configured'],
  job_warning: ['warn', 'configured'],
  lists_lag: ['warn', 'everybody'],
  notify_queue: ['bad', 'everybody'],
  operation_failing: ['warn', 'configured'],
  outbox_dead: ['bad', 'everybody'],
  outbox_slow: ['warn', 'everybody'],
  outbox_undecided: ['bad', 'everybody'],
  outbox_unknown_clients: ['bad', 'everybody'],
  parcels_waiting: ['note', 'configured'],
  quarantine: ['warn', 'configured'],
  queue_away: ['warn', 'everybody'],
  rate_limited: ['note', 'configured'],
  reconcile_found: ['warn', 'configured'],
  schema_drift: ['bad', 'everybody'],
  service_away: ['warn', 'configured'],
  settings_unread: ['warn', 'everybody'],
  slots_taken: ['bad', 'configured'],
  stock_off: ['warn', 'configured'],
  stream_first_load: ['note', 'configured'],
  stream_gap: ['warn', 'configured'],
  stream_late_changes: ['warn', 'configured'],
  stream_rescan: ['note', 'configured'],
  stream_silent: ['warn', 'configured'],
  worker_lost: ['bad', 'everybody'],
} as const satisfies Record<string, readonly [Severity, 'everybody' | 'configured']>;

export type ProblemCode = keyof typeof problemCodes;

/** Something that an operator should know, and what to do about it. */
export interface Problem {
  /**
   * What kind of problem it is. With client, subject and detail it identifies the problem while its
   * text changes.
   */
  readonly code: ProblemCode;
  /**
   * `bad`: a person must act. `warn`: look at it if it lasts. `note`: intended, or being worked on.
   */
  readonly severity: Severity;
  /** Null: every client. */
  readonly client: string | null;
  /** The client, and the job, stream, operation or part of the outbox that is concerned. */
  readonly subject: string;
  /** Tells problems of one code and subject apart. */
  readonly detail?: string;
  readonly text: string;
  /** Since when it is so; null if that is not known. */
  readonly since: Date | null;
  /** What to do; null if there is nothing to do. */
  readonly remedy: string | null;
  /** Path of the admin page that shows more. */
  readonly page?: string;
  /** Problems that this one causes. They end with it. */
  readonly follows: readonly Problem[];
}

/**
 * What a problem is about: a client (null: every client), and its job, stream, operation or part of
 * the outbox.
 */
interface ProblemPlace {
  readonly client: string | null;
  readonly part?: string;
}

/**
 * Creates a problem.
 * @param more since when; the remedy; the severity, if it is not the usual one of the code
 */
export function createProblem(
  code: ProblemCode,
  { client, part }: ProblemPlace,
  text: string,
  more: Partial<Pick<Problem, 'since' | 'remedy' | 'severity' | 'detail' | 'page'>> = {},
): Problem {
  const [severity] = problemCodes[code];
  const name = client ?? 'every client';
  const subject = part === undefined ? name : `${name} ${part}`;
  return { code, severity, client, subject, text, since: null, remedy: null, follows: [], ...more };
}

/**
 * Returns true if every process that reads the database finds the problem, whatever its clients and
 * schedules are.
 */
export const isSeenByEverybody = ({ code }: Problem) => problemCodes[code][1] === 'everybody';

const severityColors = { bad: 'red', warn: 'yellow', note: 'cyan' } as const;

/**
 * Formats a problem as one line for a terminal. The problems that follow from it are only counted.
 */
export function describeProblem({ severity, subject, text, remedy, follows }: Problem): string {
  const advice = remedy === null ? '' : `; ${remedy}`;
  const follow = follows.length === 1 ? 'follows' : 'follow';
  const more = follows.length === 0 ? '' : ` (+ ${follows.length} that ${follow})`;

  const name = styleText(severityColors[severity], toVisible(subject));
  return `${name}: ${toVisible(text + advice + more)}`;
}

const severities: readonly Severity[] = ['bad', 'warn', 'note'];

/** Sorts problems, the worst first. */
export const sortBySeverity = (problems: readonly Problem[]): Problem[] =>
  problems.toSorted(
    (one, other) => severities.indexOf(one.severity) - severities.indexOf(other.severity),
  );

/**
 * When something is a problem. The pages, posts and `doctor` show the same list, and Prometheus
 * counts it (`fulfilment_problems`).
 */
export const limits = {
  /** Time after which something that workers try again by themselves needs a person. */
  patienceMs: 30 * minuteMs,
  /** Time without a worker after which a client with something to do is a problem. */
  unservedMs: minuteMs,
  /** Time after the end of a hold of one worker within which that worker asks the service again. */
  unaskedMs: 15_000,
  /** Largest difference to the clock of the database. Smaller ones only show in the log. */
  clockSkewMs: minuteMs,
  /** Time after which a pause, or a late job that is never done although it runs, is a problem. */
  longMs: dayMs,
  /** Usual number of changed rows per day from which a day without changes is a problem. */
  usualChanges: 5,
  /** Number of late jobs from which the slots are the cause, and not one long run. */
  lateJobs: 2,
  /** Number of rows that a reconciliation finds from which it is a problem. */
  reconciledRows: 50,
  /** A list that lagged too long, or an event that was not made, is a problem for this time. */
  pastMs: 7 * dayMs,
  /** Time after which a change that is not in the feed is a problem. */
  feedLateMs: minuteMs,
  /** Used part of the NOTIFY queue. It is nearly empty unless a session holds it up. */
  notifyQueue: 0.1,
} as const;

/** Returns true if something that is tried again by itself has lasted too long to wait for it. */
export const isLasting = (since: Date, now: Date): boolean =>
  now.getTime() - since.getTime() >= limits.patienceMs;

/** Returns the severity and the remedy of something that is tried again by itself. */
export const judgeUrgency = (
  isBad: boolean,
  soon: Severity,
  remedies: { readonly soon: string; readonly bad: string },
) =>
  isBad
    ? { severity: 'bad' as const, remedy: remedies.bad }
    : { severity: soon, remedy: remedies.soon };

/** Formats for how long something has been so: `for 3m`. */
export const formatSince = (at: Date, now: Date) =>
  `for ${formatSpan((now.getTime() - at.getTime()) / 1_000)}`;

/** Formats the time of a past event: `07:18 UTC`, with the day if it is another one. */
export function formatClock(at: Date, now: Date): string {
  const [day, time] = [at.toISOString().slice(0, 10), at.toISOString().slice(11, 16)];
  return `${day === now.toISOString().slice(0, 10) ? '' : `${day} `}${time} UTC`;
}

/** Formats a number of things: `1 job`, `2 jobs`, or `1 job waits`, `2 jobs wait`. */
export function formatCount(count: number, what: string, one?: string, many?: string): string {
  const [things, verb] = count === 1 ? [what, one] : [`${what}s`, many];
  return [count, things, verb].filter((word) => word !== undefined).join(' ');
}

/** Maximum number of names that one text lists. The others are counted. */
const maxNamed = 3;

/** Lists some names, and counts the others: `a, b, c and 2 more`. */
export function listSome(names: readonly string[], separator = ', '): string {
  const more = names.length - maxNamed;
  return names.slice(0, maxNamed).join(separator) + (more > 0 ? ` and ${more} more` : '');
}

/** Formats a span in minutes: `15 minutes`. */
export const formatMinutes = (ms: number): string => formatCount(ms / minuteMs, 'minute');

/** Formats how often something happened: `once`, `3 times`. */
export const formatTimes = (count: number): string => (count === 1 ? 'once' : `${count} times`);

/** Formats how far ahead a time is: `in 12m`, or `now`. */
export function formatWait(at: Date | null, now: Date): string {
  const seconds = ((at ?? now).getTime() - now.getTime()) / 1_000;
  return seconds <= 0 ? 'now' : `in ${formatSpan(seconds)}`;
}
