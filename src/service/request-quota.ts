/**
 * Requests of one second that a process may send. The first may begin at its start, the others
 * follow evenly.
 */
export interface RequestQuota {
  readonly requests: number;
  /**
   * Milliseconds until the first may begin, from when the quota was taken; negative: it may begin
   * at once.
   */
  readonly startsInMs: number;
  /** Milliseconds until the second ends. What was not begun by then is lost. */
  readonly endsInMs: number;
}
