/** Something that an operator should know, and what to do about it. */
export interface Problem {
  /** `bad`: an operator must act, or work is stuck. `warn`: look at it. `note`: intended, or being worked on. */
  readonly severity: 'bad' | 'warn' | 'note';
  /** The client, and the job, stream or part of the outbox that is concerned. */
  readonly subject: string;
  readonly text: string;
  /** What to do; null if there is nothing to do. */
  readonly remedy: string | null;
  /** Path of the admin page that shows more. */
  readonly page?: string;
}

/** Creates a problem. */
export const createProblem = (
  severity: Problem['severity'],
  subject: string,
  text: string,
  remedy: string | null = null,
): Problem => ({ severity, subject, text, remedy });
