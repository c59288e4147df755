import { pauses } from '../../../core/backoff.ts';
import type { Database } from '../../../erp/connection/pool.ts';
import { readOptions, type StoredOption, takeSettingsTurn } from '../../../erp/resources/settings.ts';
import type { ClientAccount } from '../../../erp/runs/clients.ts';
import type { Warehouse } from '../../../warehouse/client.ts';
import type { SettingList } from '../../../warehouse/decoding/settings.ts';
import { readSettingsNow } from '../../pulls/settings.ts';
import { type CodeFinder, type CodeProblem, filterByCode, findCode } from './find-code.ts';
import { PostponedError } from './kind.ts';

/** Time that entries are kept in memory, in milliseconds. */
const keptMs = 30_000;
/** Minimum time between two reads of the settings for unknown codes. The job refresh-settings reads them daily. */
const refreshPauseMs = 10 * 60_000;

/** Finds the ids for the codes in payloads, in the settings of one client. */
export class SettingCodes implements CodeFinder {
  readonly #db: Database;
  readonly #account: ClientAccount;
  readonly #warehouse: Warehouse;
  #kept: { readonly options: readonly StoredOption[]; readonly untilMs: number } | undefined;
  #refreshing: Promise<void> | undefined;

  constructor(db: Database, account: ClientAccount, warehouse: Warehouse) {
    this.#db = db;
    this.#account = account;
    this.#warehouse = warehouse;
  }

  /**
   * Finds the id of a code. If the code is not stored, reads the settings again, because it may be new.
   * @param idMember member of the payload that takes an id instead of the code
   * @returns the id; or a problem in words, with what is known instead, if no entry or several entries have the code
   * @throws WarehouseError if the settings could not be read
   * @throws SettingsUnreadError if they cannot be read now
   */
  async find(
    list: SettingList,
    code: string,
    idMember: string,
    signal: AbortSignal,
  ): Promise<{ id: number } | CodeProblem> {
    if (filterByCode(await this.#options(), list, code).length === 0) await this.#refresh(signal);
    return findCode(await this.#options(), list, code, idMember);
  }

  async #options(): Promise<readonly StoredOption[]> {
    if (this.#kept === undefined || performance.now() > this.#kept.untilMs)
      this.#kept = { options: await readOptions(this.#db, this.#account.client), untilMs: performance.now() + keptMs };
    return this.#kept.options;
  }

  /** Reads the settings, unless that was done recently. Concurrent callers wait for the same read. */
  async #refresh(signal: AbortSignal): Promise<void> {
    this.#refreshing ??= this.#read(signal).finally(() => {
      this.#refreshing = undefined;
      this.#kept = undefined;
    });
    await this.#refreshing;
  }

  async #read(signal: AbortSignal): Promise<void> {
    const turn = await takeSettingsTurn(this.#db, this.#account.client, refreshPauseMs, pauses.serviceLists.firstMs);
    if (turn === 'recent') return;
    if (turn === 'later') throw new SettingsUnreadError();
    await readSettingsNow(this.#db, this.#account, this.#warehouse, signal);
  }
}

/** An error for a code that cannot be found now: reading the settings failed recently, or another worker reads them. */
class SettingsUnreadError extends PostponedError {
  constructor() {
    super(
      'settings_unread',
      'the code could not be checked, because the settings could not be read; they will be read again soon',
      pauses.serviceLists.firstMs,
    );
  }
}
