import { CodedError } from '../../../core/errors.ts';
import type { Database } from '../../../erp/connection/pool.ts';
import { readOptions, type StoredOption, takeSettingsTurn } from '../../../erp/resources/settings.ts';
import type { Own } from '../../../erp/runs/clients.ts';
import type { Warehouse } from '../../../warehouse/client.ts';
import type { SettingList } from '../../../warehouse/decoding/settings.ts';
import { readSettingsNow } from '../../pulls/settings.ts';

/** How long entries are taken from memory. */
const keptMs = 30_000;
/** An unknown code makes the settings be asked for at most once in this time (interface.md advises once a day). */
const refreshPauseMs = 10 * 60_000;
/** After a reading that failed, or while another worker is at it, the next one comes after this time. */
const failedPauseMs = 15_000;

/** Ids by the codes that payloads name, of one client's settings. */
export class SettingCodes {
  readonly #db: Database;
  readonly #own: Own;
  readonly #warehouse: Warehouse;
  #kept: { readonly options: readonly StoredOption[]; readonly untilMs: number } | undefined;
  #refreshing: Promise<void> | undefined;

  constructor(db: Database, own: Own, warehouse: Warehouse) {
    this.#db = db;
    this.#own = own;
    this.#warehouse = warehouse;
  }

  /**
   * The id of a code. One that is not known makes the settings be read once, as it may be new.
   * @returns a problem in words, with the codes there are, where none or several entries have it
   * @throws WarehouseError where the settings had to be read and could not be
   */
  async find(list: SettingList, code: string, signal: AbortSignal): Promise<{ id: number } | CodeProblem> {
    let found = withCode(await this.#options(), list, code);
    if (found.length === 0) {
      await this.#refresh(signal);
      found = withCode(await this.#options(), list, code);
    }
    const [first, ...others] = found;
    if (first !== undefined && others.length === 0) return { id: first.id };
    if (first !== undefined)
      return { problem: `${code} is the code of several (ids ${found.map(({ id }) => id).join(', ')})`, several: true };
    const listed = (await this.#options()).filter((option) => option.list === list);
    const codes = listed.map((option) => option.code ?? `id ${option.id}`).join(', ');
    return { problem: `there is no ${code}; known are ${codes || 'none'}`, several: false };
  }

  async #options(): Promise<readonly StoredOption[]> {
    if (this.#kept === undefined || performance.now() > this.#kept.untilMs)
      this.#kept = { options: await readOptions(this.#db, this.#own.client), untilMs: performance.now() + keptMs };
    return this.#kept.options;
  }

  /** Reads the settings, unless that was done lately; whoever comes meanwhile waits for the same reading. */
  async #refresh(signal: AbortSignal): Promise<void> {
    this.#refreshing ??= this.#read(signal).finally(() => {
      this.#refreshing = undefined;
      this.#kept = undefined;
    });
    await this.#refreshing;
  }

  async #read(signal: AbortSignal): Promise<void> {
    const turn = await takeSettingsTurn(this.#db, this.#own.client, refreshPauseMs, failedPauseMs);
    if (turn === 'recent') return;
    if (turn === 'later') throw new SettingsUnreadError();
    await readSettingsNow(this.#db, this.#own, this.#warehouse, signal);
  }
}

/** A code cannot be looked up now: the settings could not be read a moment ago, or are being read by another worker. */
export class SettingsUnreadError extends CodedError {
  readonly retryMs = failedPauseMs;
  constructor() {
    super(
      'settings_unread',
      'the settings, by which codes are looked up, could not be read so far; they are read again soon',
    );
  }
}

/** Why a code leads to no id. */
export interface CodeProblem {
  readonly problem: string;
  /** Several entries have it: only an id can tell them apart. */
  readonly several: boolean;
}

const withCode = (options: readonly StoredOption[], list: SettingList, code: string): StoredOption[] =>
  options.filter((option) => option.list === list && option.code === code);
