/** Something a person should know of, and what he can do about it. */
export interface Problem {
  /** `bad`: something does not get through. `warn`: it should be looked at. `note`: it is meant, or under way. */
  readonly severity: 'bad' | 'warn' | 'note';
  /** Client, and what of it: a job, a stream, the outbox. */
  readonly subject: string;
  readonly text: string;
  /** What to do; null where nothing is to be done. */
  readonly remedy: string | null;
  /** Page of the admin server that shows more. */
  readonly page?: string;
}

/** A problem of these parts. */
export const problem = (
  severity: Problem['severity'],
  subject: string,
  text: string,
  remedy: string | null = null,
): Problem => ({ severity, subject, text, remedy });
