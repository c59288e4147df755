import type { Database } from '../../erp/connect.ts';
import { readOptions, type StoredOption, takeSettingsTurn } from '../../erp/settings.ts';
import type { Warehouse } from '../../warehouse/client.ts';
import type { SettingList } from '../../warehouse/settings.ts';
import { refreshSettings } from '../settings.ts';

/** How long entries are taken from memory. */
const keptMs = 30_000;
/** An unknown code makes the settings be asked for at most so often (interface.md advises once a day). */
const refreshPauseMs = 10 * 60_000;

/** Ids by the codes that payloads name, of one client's settings. */
export class SettingCodes {
  readonly #db: Database;
  readonly #client: string;
  readonly #warehouse: Warehouse;
  #kept: { readonly options: readonly StoredOption[]; readonly untilMs: number } | undefined;
  #refreshing: Promise<void> | undefined;

  constructor(db: Database, client: string, warehouse: Warehouse) {
    this.#db = db;
    this.#client = client;
    this.#warehouse = warehouse;
  }

  /**
   * The id of a code. One that is not known makes the settings be read once, as it may be new.
   * @returns a problem in words, with the codes there are, where none or several entries have it
   * @throws WarehouseError where the settings had to be read and could not be
   */
  async find(list: SettingList, code: string, signal: AbortSignal): Promise<{ id: number } | { problem: string }> {
    let found = this.#withCode(await this.#options(), list, code);
    if (found.length === 0 && (await this.#refresh(signal))) found = this.#withCode(await this.#options(), list, code);
    const [first, ...others] = found;
    if (first !== undefined && others.length === 0) return { id: first.id };
    if (first !== undefined)
      return {
        problem: `${code} is the code of several (ids ${found.map(({ id }) => id).join(', ')}): name it by its id`,
      };
    const codes = (await this.#options())
      .filter((option) => option.list === list)
      .map((option) => option.code ?? `id ${option.id}`);
    return { problem: `there is no ${code}; known are ${codes.join(', ') || 'none'}` };
  }

  #withCode(options: readonly StoredOption[], list: SettingList, code: string): StoredOption[] {
    return options.filter((option) => option.list === list && option.code === code);
  }

  async #options(): Promise<readonly StoredOption[]> {
    if (this.#kept === undefined || performance.now() > this.#kept.untilMs)
      this.#kept = { options: await readOptions(this.#db, this.#client), untilMs: performance.now() + keptMs };
    return this.#kept.options;
  }

  /** Whether they were read anew, here or by another worker since they were taken into memory. */
  async #refresh(signal: AbortSignal): Promise<boolean> {
    if (this.#refreshing !== undefined) {
      await this.#refreshing;
      return true;
    }
    this.#kept = undefined;
    if (!(await takeSettingsTurn(this.#db, this.#client, refreshPauseMs))) return true;
    this.#refreshing = refreshSettings(this.#db, this.#client, this.#warehouse, signal).then(() => undefined);
    try {
      await this.#refreshing;
    } finally {
      this.#refreshing = undefined;
      this.#kept = undefined;
    }
    return true;
  }
}
