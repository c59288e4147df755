import { setTimeout as wait } from 'node:timers/promises';
import { openListener } from '../deps/database.ts';
import type { WorkMetrics } from '../metrics/work-metrics.ts';
import { openPusher } from './open-pusher.ts';
import type { PushSettings } from './push-deps.ts';
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

/** Pushing while it is switched on. */
interface StartedPushing {
  readonly change: (settings: PushSettings) => void;
  readonly close: () => Promise<void>;
}

/** The pushing of a worker, which the settings can switch on, change and switch off. */
export class Pushing {
  readonly #parts: PushingParts;
  #started: StartedPushing | null = null;
  #ending: Promise<void> = Promise.resolve();
  #isClosed = false;

  constructor(parts: PushingParts) {
    this.#parts = parts;
  }

  /** Pushes by these settings from now on. If they switch it off, waits until what is under way is settled. */
  async apply(deps: RunnerDeps): Promise<void> {
    if (this.#isClosed) return;
    if (deps.config.pushSweepMs === null) await this.#end();
    else if (this.#started === null) this.#started = startPushing(deps, this.#parts);
    else this.#started.change(deps);
  }

  /** Claims nothing more, and resolves when what is under way is settled. */
  close(): Promise<void> {
    this.#isClosed = true;
    return this.#end();
  }

  #end(): Promise<void> {
    const started = this.#started;
    this.#started = null;
    if (started !== null) this.#ending = started.close();
    return this.#ending;
  }
}

/** Starts pushing. A notification of the database, or a periodic sweep, finds the rows. */
function startPushing(deps: RunnerDeps, { databaseUrl, metrics }: PushingParts): StartedPushing {
  const { pusher, change, close } = openPusher({
    ...deps,
    databaseUrl,
    onSettled: (settlement, kind) => metrics.onSettled(settlement, kind),
  });
  const listener = openListener(databaseUrl, 'fulfilment_outbox', (payload) => void pusher.wakeFor(payload), deps.log);
  pusher.start();
  return {
    change,
    close: async () => {
      // At the same time: if the listener does not close, the pusher must stop claiming anyway.
      await Promise.all([listener.close(), pusher.stop(pushStopTimeoutMs)]);
      await Promise.race([close(), wait(closeTimeoutMs, undefined, { ref: false })]);
    },
  };
}
