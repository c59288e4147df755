import type { SettingsRecord } from '../../../config/settings/record.ts';
import type { Database } from '../../erp/connection/pool.ts';
import { forgetWorkerSettings, noteWorkerAlive, noteWorkerSettings } from '../../erp/runs/worker-settings.ts';
import { errorFields, type Logger } from '../logging/logger.ts';
import { throttleWarnings } from '../logging/throttle-warnings.ts';

/** A sign of life is given in this interval. */
const aliveMs = 20_000;

/** The settings that a worker uses, and what happened to changed ones. */
export interface SettingsState {
  readonly record: SettingsRecord;
  readonly loadedAt: Date;
  /** What is wrong in changed files. Empty: nothing. */
  readonly refused: readonly string[];
  /** Changed settings that only a restart takes over. */
  readonly restart: readonly string[];
}

/** Records in Postgres which settings this worker uses, for `doctor` and `status`. Work never waits for it. */
export class SettingsNote {
  readonly #db: Database;
  readonly #worker: string;
  readonly #read: () => SettingsState;
  readonly #warn: ReturnType<typeof throttleWarnings>;
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> | undefined;
  #isChanged = true;

  /** @param read returns the present state */
  constructor(db: Database, worker: string, log: Logger, read: () => SettingsState) {
    this.#db = db;
    this.#worker = worker;
    this.#read = read;
    this.#warn = throttleWarnings(log);
  }

  start(): void {
    this.#tick();
    this.#timer = setInterval(() => this.#tick(), aliveMs);
  }

  /** Records the present state soon. */
  change(): void {
    this.#isChanged = true;
    this.#tick();
  }

  /** Removes the record: this worker ends. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#writing;
    // If the database is away, the record counts as lost after a minute.
    await forgetWorkerSettings(this.#db, this.#worker).catch((error: unknown) => this.#report(error));
  }

  #tick(): void {
    this.#writing ??= this.#write().finally(() => {
      this.#writing = undefined;
    });
  }

  async #write(): Promise<void> {
    try {
      if (!this.#isChanged && (await noteWorkerAlive(this.#db, this.#worker))) return;
      do {
        this.#isChanged = false;
        const { record, loadedAt, refused, restart } = this.#read();
        await noteWorkerSettings(this.#db, { worker: this.#worker, settings: record, refused, restart }, loadedAt);
      } while (this.#isChanged);
    } catch (error) {
      this.#isChanged = true;
      this.#report(error);
    }
  }

  #report(error: unknown): void {
    this.#warn({ event: 'settings_not_noted', ...errorFields(error) });
  }
}
