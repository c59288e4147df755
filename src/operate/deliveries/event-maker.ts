import { errorFields, type Logger, throttleWarnings } from '../../core/logger.ts';
import { repeat } from '../../core/repeat.ts';
import type { Database } from '../../db/pool.ts';
import { makeEvents } from '../sql/make-events.ts';

/** Interval in which a worker looks for changes. */
const tickMs = 1_000;

/**
 * Makes business events from the feed, until it is closed. Several workers share the work by
 * Postgres.
 */
export function startEventMaker(
  db: Database,
  log: Logger,
): { readonly close: () => Promise<void> } {
  const warn = throttleWarnings(log);
  let isClosing = false;

  const makeAll = async () => {
    while (!isClosing) {
      const made = await makeEvents(db);
      if (made.missed) log.error({ event: 'events_missed' });
      else if (!made.more) return;
    }
  };

  const maker = repeat(tickMs, () =>
    makeAll().catch((error: unknown) => warn({ event: 'events_failed', ...errorFields(error) })),
  );

  return {
    close: async () => {
      isClosing = true;
      await maker.close();
    },
  };
}
