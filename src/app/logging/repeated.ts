import type { Logger } from './logger.ts';

/** A lost connection is said at once, and then at most once in this time while it stays lost. */
const intervalMs = 30_000;

interface Said {
  readonly atMs: number;
  held: number;
}

/**
 * Logs warnings that come in swarms (a server that is away makes several a second, from every part that needs it): the
 * first of each kind at once, the next after half a minute, with the number held back in between.
 * @param nowMs a monotonic clock
 */
export function repeatedWarnings(log: Logger, nowMs: () => number = () => performance.now()) {
  const said = new Map<string, Said>();
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
    const last = said.get(key);
    if (last !== undefined && nowMs() - last.atMs < intervalMs) {
      last.held++;
      return;
    }
    said.set(key, { atMs: nowMs(), held: 0 });
    log.warn(last === undefined || last.held === 0 ? fields : { ...fields, heldBack: last.held });
  };
}
