import { setTimeout as wait } from 'node:timers/promises';
import { openListener } from '../deps/database.ts';
import type { WorkMetrics } from '../metrics/work-metrics.ts';
import { openPusher } from './open-pusher.ts';
import type { RunnerDeps } from './runner.ts';

/** Milliseconds that connections have to close. One that no longer answers takes a minute to fail. */
const closeTimeoutMs = 2_000;
/** Milliseconds that a stop waits for the answers of sent rows. A row without an answer becomes unknown. */
const pushStopTimeoutMs = 15_000;

/** What pushing needs besides the parts of runs. */
export interface PushingParts {
  readonly databaseUrl: string;
  readonly metrics: WorkMetrics;
}

/** Pushing of a worker. */
export interface Pushing {
  /** Claims nothing more, and resolves when what is under way is settled. It may be called again. */
  readonly close: () => Promise<void>;
}

/**
 * Starts pushing, unless SCHEDULE_PUSH_OUTBOX is off. A notification of the database, or a periodic sweep, finds the
 * rows.
 */
export function startPushing(deps: RunnerDeps, { databaseUrl, metrics }: PushingParts): Pushing {
  if (deps.config.pushSweepMs === null) return { close: async () => undefined };
  const { pusher, close } = openPusher({
    ...deps,
    databaseUrl,
    onSettled: (settlement, kind) => metrics.onSettled(settlement, kind),
  });
  const listener = openListener(databaseUrl, 'fulfilment_outbox', (payload) => void pusher.wakeFor(payload), deps.log);
  pusher.start();
  const end = async () => {
    // At the same time: if the listener does not close, the pusher must stop claiming anyway.
    await Promise.all([listener.close(), pusher.stop(pushStopTimeoutMs)]);
    await Promise.race([close(), wait(closeTimeoutMs, undefined, { ref: false })]);
  };
  let ending: Promise<void> | undefined;
  return {
    close: () => {
      ending ??= end();
      return ending;
    },
  };
}
