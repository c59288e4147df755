import { ConfigError } from '../../../config/config-error.ts';
import type { Config } from '../../../config/env.ts';
import {
  describeSettingsChanges,
  findSettingsChanges,
  type SettingsChanges,
} from '../../../config/settings/changes.ts';
import { reloadedNames, type SettingsRecord, toSettingsRecord } from '../../../config/settings/record.ts';
import { errorFields, type Logger } from '../logging/logger.ts';
import { throttleWarnings } from '../logging/throttle-warnings.ts';
import type { SettingsState } from './settings-note.ts';
import type { SettingsWatch } from './settings-watch.ts';

/** The files are looked at in this interval. A change is taken over when two looks in a row found it. */
const lookMs = 2_000;

/** The part of a worker that takes over settings. */
export interface ReloadTarget {
  readonly change: (config: Config, changes: SettingsChanges) => Promise<void>;
  /** Called after each change of the state. */
  readonly noteSettings: () => void;
}

/** Where a reloader reads from. */
export interface ReloadSource {
  /** @throws ConfigError if the settings are wrong */
  readonly read: () => Config;
  readonly files: () => readonly string[];
  /** Has remembered the files before `config` was read. */
  readonly watch: SettingsWatch;
}

/**
 * Reads the settings again after SIGHUP, or when a file of them has changed, and lets the worker take over what differs.
 * Settings that are wrong change nothing.
 */
export class Reloader {
  readonly #source: ReloadSource;
  readonly #log: Logger;
  readonly #warn: ReturnType<typeof throttleWarnings>;
  /** The settings in use. */
  #config: Config;
  /** Their exact record. It does not leave this process. */
  #record: SettingsRecord;
  #loadedAt = new Date();
  #refused: readonly string[] = [];
  #restart: readonly string[] = [];
  /** Settings that the worker has not taken over yet. */
  #next: Config | null = null;
  #isAsked = false;
  /** Why the settings were read last. */
  #cause: 'start' | 'SIGHUP' | 'file' = 'start';
  #target: ReloadTarget | null = null;
  #timer: NodeJS.Timeout | undefined;
  #working: Promise<void> | undefined;

  constructor(config: Config, source: ReloadSource, log: Logger) {
    this.#config = config;
    this.#record = toSettingsRecord(config, 'exact');
    this.#source = source;
    this.#log = log;
    this.#warn = throttleWarnings(log);
  }

  /** The settings in use. */
  get config(): Config {
    return this.#config;
  }

  /** The outcome of changed settings. */
  get outcome(): Omit<SettingsState, 'record'> {
    return { loadedAt: this.#loadedAt, refused: this.#refused, restart: this.#restart };
  }

  /** What the worker records of its settings. */
  get state(): SettingsState {
    return { record: toSettingsRecord(this.#config, 'stored'), ...this.outcome };
  }

  start(): void {
    this.#timer = setInterval(() => this.#tick(), lookMs);
  }

  /** Takes over nothing more. */
  stop(): void {
    clearInterval(this.#timer);
    this.#target = null;
  }

  /** Reads the settings at once. */
  ask(): void {
    this.#isAsked = true;
    this.#tick();
  }

  /** Begins to let a worker take over changes. It was started with these settings, which may have changed since. */
  attach(target: ReloadTarget, startedWith: Config): void {
    this.#target = target;
    if (startedWith === this.#config) return;
    this.#next ??= this.#config;
    this.#config = startedWith;
    this.#record = toSettingsRecord(startedWith, 'exact');
    this.#tick();
  }

  #tick(): void {
    this.#working ??= this.#work().finally(() => {
      this.#working = undefined;
    });
  }

  async #work(): Promise<void> {
    try {
      if (this.#isAsked || (await this.#source.watch.hasChanged())) await this.#read();
      if (this.#next !== null) await this.#takeOver(this.#next);
    } catch (error) {
      this.#warn({ event: 'settings_waiting', ...errorFields(error) });
    }
    // A signal may have come meanwhile.
    if (this.#isAsked) await this.#work();
  }

  /** Reads the settings, and decides what the worker should take over. */
  async #read(): Promise<void> {
    const cause = this.#isAsked ? 'SIGHUP' : 'file';
    this.#cause = cause;
    this.#isAsked = false;
    await this.#source.watch.remember(this.#source.files());
    let read: Config;
    try {
      read = this.#source.read();
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      this.#refused = error.problems;
      this.#log.error({ event: 'settings_refused', cause, problems: error.problems });
      this.#target?.noteSettings();
      return;
    }
    const { restart, ...changes } = findSettingsChanges(this.#record, toSettingsRecord(read, 'exact'));
    const isNewRestart = restart.join() !== this.#restart.join();
    this.#refused = [];
    this.#restart = restart;
    const isChanged = describeSettingsChanges({ ...changes, restart }).length > 0;
    this.#next = isChanged ? keepFixed(this.#config, read) : null;
    if (!isChanged && restart.length === 0) this.#log.info({ event: 'settings_unchanged', cause });
    if (isNewRestart && restart.length > 0)
      this.#log.warn({ event: 'settings_need_restart', cause, settings: restart });
    this.#target?.noteSettings();
  }

  async #takeOver(next: Config): Promise<void> {
    const record = { ...toSettingsRecord(next, 'exact'), fixed: this.#record.fixed };
    const changes = findSettingsChanges(this.#record, record);
    await this.#target?.change(next, changes);
    this.#config = next;
    this.#record = record;
    this.#loadedAt = new Date();
    if (this.#next === next) this.#next = null;
    this.#log.info({ event: 'settings_reloaded', cause: this.#cause, changes: describeSettingsChanges(changes) });
    this.#target?.noteSettings();
  }
}

/** Returns the settings in use with those of `read` that a running worker takes over. */
function keepFixed(inUse: Config, read: Config): Config {
  const { clients, schedules, pushSweepMs, fixedNames } = read;
  const values = Object.fromEntries(reloadedNames.map((name) => [name, read[name]]));
  return { ...inUse, ...values, clients, schedules, pushSweepMs, fixedNames };
}
