/**
 * Stable names of all problems, and who can see them. `everybody`: the database says it. `configured`: it depends on the
 * clients and schedules of the process that looks.
 */
const problemCodes = {
  alerts_undelivered: 'everybody',
  client_held: 'everybody',
  client_parked: 'everybody',
  database_changed: 'everybody',
  database_is_copy: 'everybody',
  job_failing: 'configured',
  job_late: 'configured',
  job_paused: 'everybody',
  job_skipped: 'configured',
  job_warning: 'configured',
  notify_queue: 'everybody',
  outbox_dead: 'everybody',
  outbox_undecided: 'everybody',
  outbox_unknown_clients: 'everybody',
  outbox_unserved: 'everybody',
  parcels_waiting: 'configured',
  push_held: 'everybody',
  push_limited: 'everybody',
  stock_off: 'configured',
  stream_first_load: 'configured',
  stream_gap: 'configured',
  stream_late_changes: 'configured',
  stream_rescan: 'configured',
  stream_silent: 'configured',
  stream_stale: 'configured',
} as const;

export type ProblemCode = keyof typeof problemCodes;

/** Something that an operator should know, and what to do about it. */
export interface Problem {
  /** What kind of problem it is. With client, subject and detail it identifies the problem while its text changes. */
  readonly code: ProblemCode;
  /** `bad`: an operator must act, or work is stuck. `warn`: look at it. `note`: intended, or being worked on. */
  readonly severity: 'bad' | 'warn' | 'note';
  /** Null: every client. */
  readonly client: string | null;
  /** The client, and the job, stream or part of the outbox that is concerned. */
  readonly subject: string;
  /** Tells problems of one code and subject apart. */
  readonly detail?: string;
  readonly text: string;
  /** What to do; null if there is nothing to do. */
  readonly remedy: string | null;
  /** Path of the admin page that shows more. */
  readonly page?: string;
}

/** What a problem is about: a client (null: every client), and its job, stream or part of the outbox. */
export interface ProblemPlace {
  readonly client: string | null;
  readonly part?: string;
}

/** Creates a problem. */
export function createProblem(
  code: ProblemCode,
  severity: Problem['severity'],
  { client, part }: ProblemPlace,
  text: string,
  remedy: string | null = null,
): Problem {
  const name = client ?? 'every client';
  return { code, severity, client, subject: part === undefined ? name : `${name} ${part}`, text, remedy };
}

/** Returns true if every process that reads the database finds the problem, whatever its clients and schedules are. */
export const isSeenByEverybody = ({ code }: Problem) => problemCodes[code] === 'everybody';
