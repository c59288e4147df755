import type { Logger } from './logger.ts';

/** Minimum time between two equal warnings, in milliseconds. */
const intervalMs = 30_000;

/** The last line of a kind of warning. */
interface LoggedWarning {
  readonly atMs: number;
  /** Number of lines left out since then. */
  held: number;
}

/**
 * Creates a function that logs a warning at once, and an equal warning only after half a minute. Equal warnings have
 * the same event, task, client, kind and code.
 */
export function throttleWarnings(log: Logger, nowMs: () => number = () => performance.now()) {
  const loggedWarnings = new Map<string, LoggedWarning>();
  return (fields: {
    readonly event: string;
    readonly code: string;
    readonly error: string;
    readonly task?: string;
    readonly client?: string;
    readonly kind?: string;
    readonly delayMs?: number;
  }): void => {
    const { event, task, client, kind, code } = fields;
    const key = JSON.stringify([event, task, client, kind, code]);
    const last = loggedWarnings.get(key);
    if (last !== undefined && nowMs() - last.atMs < intervalMs) {
      last.held++;
      return;
    }
    loggedWarnings.set(key, { atMs: nowMs(), held: 0 });
    log.warn(last === undefined || last.held === 0 ? fields : { ...fields, heldBack: last.held });
  };
}
