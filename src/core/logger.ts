/** The logger. It writes lines of fields. */

import { describeError } from './errors.ts';
import { describeLibraryError } from './library-messages.ts';

/**
 * Writes one event per call, as fields only. A free-text message is not possible: it would bypass
 * the field list of create-logger.ts.
 */
export type Logger = Readonly<
  Record<
    'debug' | 'info' | 'warn' | 'error' | 'fatal',
    (fields: { readonly event: string; readonly [field: string]: unknown }) => void
  >
>;

const ignore = () => undefined;

/** A logger that writes nothing, for commands whose output is their result. */
export const silentLogger: Logger = {
  debug: ignore,
  info: ignore,
  warn: ignore,
  error: ignore,
  fatal: ignore,
};

/**
 * Turns an error into log fields: its stable code, and its chain of causes in words. Adds the stack
 * of an error that has no code and is not known from a library: the fault is in this program.
 */
export function errorFields(error: unknown): { code: string; error: string; stack?: string } {
  const code =
    error instanceof Error && 'code' in error && typeof error.code === 'string'
      ? error.code
      : 'unexpected';

  const fields = { code, error: describeError(error) };

  return code === 'unexpected' && error instanceof Error && describeLibraryError(error) === null
    ? { ...fields, stack: readFrames(error) }
    : fields;
}

/**
 * Returns the frames of a stack without the message above them. The field `error` has it, and it
 * may quote data.
 */
function readFrames({ stack = '', message }: Error): string {
  return stack
    .replace(message, '')
    .split('\n')
    .filter((line) => line.startsWith('    at '))
    .join('\n');
}

/** Minimum time between two equal warnings, in milliseconds. */
const intervalMs = 30_000;

/** The last line of a kind of warning. */
interface LoggedWarning {
  readonly atMs: number;
  /** Number of lines left out since then. */
  held: number;
}

/**
 * Creates a function that logs a warning at once, and an equal warning only after half a minute.
 * Equal warnings have the same event, task, client, kind and code.
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
