import { minuteMs } from '../../core/time.ts';
import type { Database } from '../../erp/connection/pool.ts';
import { rollUpFigures } from '../../erp/figures/roll-up.ts';
import { errorFields, type Logger } from '../logging/logger.ts';
import { throttleWarnings } from '../logging/throttle-warnings.ts';

/**
 * Makes the figures of the charts, each minute by one of the workers. A failure delays charts and nothing else; the next
 * roll-up makes up for it.
 */
export class FigureMaker {
  readonly #db: Database;
  readonly #warn: ReturnType<typeof throttleWarnings>;
  #timer: NodeJS.Timeout | undefined;
  #working: Promise<void> | undefined;
  #isStopped = false;

  constructor(db: Database, log: Logger) {
    this.#db = db;
    this.#warn = throttleWarnings(log);
  }

  /** Makes figures now, and then each minute. */
  start(): void {
    this.#tick();
    this.#timer = setInterval(() => this.#tick(), minuteMs);
  }

  /** Stops. Waits for the roll-up under way. */
  async close(): Promise<void> {
    this.#isStopped = true;
    clearInterval(this.#timer);
    await this.#working;
  }

  #tick(): void {
    this.#working ??= this.#work().finally(() => {
      this.#working = undefined;
    });
  }

  async #work(): Promise<void> {
    // Timers fire a little early or late. With the whole minute, every second turn of a single worker would come too soon.
    const intervalMs = minuteMs / 2;
    try {
      while (!this.#isStopped && (await rollUpFigures(this.#db, intervalMs))?.isBehind);
    } catch (error) {
      this.#warn({ event: 'figures_failed', ...errorFields(error) });
    }
  }
}
