import { pauses } from '../../../core/backoff.ts';
import type { Database } from '../../../erp/connection/pool.ts';
import { readServiceLists, type ServiceLists, takeListsTurn } from '../../../erp/resources/service-lists.ts';
import type { ClientAccount } from '../../../erp/runs/clients.ts';
import type { Warehouse } from '../../../warehouse/client.ts';
import type { SettingList } from '../../../warehouse/decoding/decode-service-lists.ts';
import { readListsNow } from '../../pulls/refresh-settings.ts';
import {
  type CodeFinder,
  type CodeProblem,
  describeUnlisted,
  filterByCode,
  filterWarehouses,
  findCode,
} from './find-code.ts';
import { PostponedError } from './kind.ts';

/** Time that entries are kept in memory, in milliseconds. */
const keptMs = 30_000;
/** Minimum time between two reads of the settings for unknown codes. The job refresh-settings reads them daily. */
const refreshPauseMs = 10 * 60_000;

/** Compares payloads with the lists of one client. Reads the lists again, because an unknown code may be new. */
export class SettingCodes implements CodeFinder {
  readonly #db: Database;
  readonly #account: ClientAccount;
  readonly #warehouse: Warehouse;
  #kept: { readonly lists: ServiceLists; readonly untilMs: number } | undefined;
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
    if (filterByCode((await this.#lists()).options, list, code).length === 0) await this.#refresh(signal);
    return findCode((await this.#lists()).options, list, code, idMember);
  }

  /** @throws as `find` does */
  async findListProblem(list: SettingList, code: string, form: RegExp, signal: AbortSignal): Promise<string | null> {
    if (describeUnlisted((await this.#lists()).options, list, code, form) === null) return null;
    await this.#refresh(signal);
    return describeUnlisted((await this.#lists()).options, list, code, form);
  }

  /** @throws as `find` does */
  async findWarehouses(methodId: number, wanted: readonly string[], signal: AbortSignal): Promise<readonly string[]> {
    const offered = filterWarehouses(await this.#lists(), methodId);
    if (offered.length === 0 || wanted.every((warehouse) => offered.includes(warehouse))) return offered;
    await this.#refresh(signal);
    return filterWarehouses(await this.#lists(), methodId);
  }

  async #lists(): Promise<ServiceLists> {
    if (this.#kept === undefined || performance.now() > this.#kept.untilMs) {
      const lists = await readServiceLists(this.#db, this.#account.client);
      this.#kept = { lists, untilMs: performance.now() + keptMs };
    }
    return this.#kept.lists;
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
    const turn = await takeListsTurn(this.#db, this.#account.client, refreshPauseMs, pauses.serviceLists.firstMs);
    if (turn === 'recent') return;
    if (turn === 'later') throw new SettingsUnreadError();
    await readListsNow(this.#db, this.#account, this.#warehouse, signal);
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
