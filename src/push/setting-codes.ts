import { pauses } from '../core/backoff.ts';
import { quote } from '../core/quote.ts';
import type { Database } from '../db/pool.ts';
import { readListsNow } from '../pull/refresh-settings.ts';
import {
  readServiceLists,
  type ServiceLists,
  type StoredOption,
  takeListsTurn,
} from '../pull/sql/service-lists.ts';
import type { Warehouse } from '../service/client.ts';
import type { SettingList } from '../service/decoding/decode-service-lists.ts';
import type { ClientAccount } from '../service/sql/clients.ts';
import {
  type CheckContext,
  type CodeFinder,
  type CodeResult,
  type JsonObject,
  PayloadError,
  PostponedError,
} from './kind.ts';
import { isGiven } from './payload.ts';

/** Time that entries are kept in memory, in milliseconds. */
const keptMs = 30_000;
/**
 * Compares payloads with the lists of one client. Reads the lists again, because an unknown code
 * may be new.
 */
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
   * @throws WarehouseError if the settings could not be read
   * @throws PostponedError if they cannot be read now: reading them failed recently, or another
   *   worker reads them
   */
  async find(
    list: SettingList,
    code: string,
    idMember: string,
    signal: AbortSignal,
  ): Promise<CodeResult> {
    if (filterByCode((await this.#lists()).options, list, code).length === 0)
      await this.#refresh(signal);
    return findCode((await this.#lists()).options, list, code, idMember);
  }

  /** @throws as `find` does */
  async findListProblem(
    list: SettingList,
    code: string,
    form: RegExp,
    signal: AbortSignal,
  ): Promise<string | null> {
    if (describeUnlisted((await this.#lists()).options, list, code, form) === null) return null;
    await this.#refresh(signal);
    return describeUnlisted((await this.#lists()).options, list, code, form);
  }

  /** @throws as `find` does */
  async findWarehouses(
    methodId: number,
    wanted: readonly string[],
    signal: AbortSignal,
  ): Promise<string[]> {
    const offered = filterWarehouses(await this.#lists(), methodId);
    if (offered.length === 0 || wanted.every((warehouse) => offered.includes(warehouse)))
      return offered;
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

  /**
   * Reads the settings, unless that was done recently. Concurrent callers wait for the same read.
   */
  async #refresh(signal: AbortSignal): Promise<void> {
    this.#refreshing ??= this.#read(signal).finally(() => {
      this.#refreshing = undefined;
      this.#kept = undefined;
    });
    await this.#refreshing;
  }

  async #read(signal: AbortSignal): Promise<void> {
    const turn = await takeListsTurn(this.#db, this.#account.client, pauses.serviceLists.firstMs);
    if (turn === 'recent') return;
    if (turn === 'later')
      throw new PostponedError(
        'settings_unread',
        'the code could not be checked, because the settings could not be read; ' +
          'they will be read again soon',
        pauses.serviceLists.firstMs,
      );
    await readListsNow(this.#db, this.#account, this.#warehouse, signal);
  }
}

/**
 * Two members of a payload that name an entry of a list of the settings: by its code, or by its id.
 */
export interface CodedMember {
  readonly list: SettingList;
  readonly byCode: string;
  readonly byId: string;
  /** True if one of both must be given. */
  readonly required: boolean;
}

/**
 * Returns the problems of a coded member: both are given, none although one is required, or the
 * code has no single id.
 * @param path place of `value` in the payload, such as `items[0].`
 */
export async function findCodeProblems(
  value: JsonObject,
  { list, byCode, byId, required }: CodedMember,
  { codes, signal }: CheckContext,
  path = '',
): Promise<string[]> {
  const given = Number(isGiven(value, byCode)) + Number(isGiven(value, byId));
  if (given === 2 || (required && given === 0))
    return [`${path}${byCode}: give either ${byCode} (code) or ${byId}`];

  const code = value[byCode];
  if (typeof code !== 'string' || code === '') return [];
  const found = await codes.find(list, code, byId, signal);

  return 'problem' in found ? [`${path}${byCode}: ${found.problem}`] : [];
}

/**
 * Returns the id that a payload names by id or code; null if it names none.
 * @throws PayloadError if the code has no single id: the settings have changed since the payload
 *   was checked
 */
export async function findNamedId(
  value: { readonly [member: string]: unknown },
  { list, byCode, byId }: CodedMember,
  { codes, signal }: CheckContext,
  path = '',
): Promise<number | null> {
  const { [byId]: id, [byCode]: code } = value;
  if (typeof id === 'number') return id;
  if (typeof code !== 'string') return null;

  const found = await codes.find(list, code, byId, signal);
  if ('problem' in found) throw new PayloadError([`${path}${byCode}: ${found.problem}`]);

  return found.id;
}

/** Codes that are not compared with anything. */
export const anyCode: CodeFinder = {
  find: async () => ({ id: 0 }),
  findListProblem: async () => null,
  findWarehouses: async () => [],
};

/** Returns the entries of a list that have a code. */
const filterByCode = (
  options: readonly StoredOption[],
  list: SettingList,
  code: string,
): StoredOption[] => options.filter((option) => option.list === list && option.code === code);

/**
 * Returns the id of a code; or a problem in words, with what can be used instead, if no entry or
 * several entries have it.
 * @param idMember member of the payload that takes an id instead of the code
 */
export function findCode(
  options: readonly StoredOption[],
  list: SettingList,
  code: string,
  idMember: string,
): CodeResult {
  const found = filterByCode(options, list, code);
  const [first, ...others] = found;
  if (first === undefined) return { problem: describeUnknownCode(options, list, code, idMember) };
  if (others.length === 0) return { id: first.id };

  const ids = found.map(({ id }) => id).join(', ');

  return {
    problem:
      `several entries have the code ${nameCode(code)} (ids ${ids}), ` +
      `so use ${idMember} instead`,
  };
}

/**
 * Returns the problem of a code that a list lacks; null if there is none. The interface does not
 * show what the codes of a list look like: a list that is empty, or has an entry of another form,
 * is not compared.
 */
export function describeUnlisted(
  options: readonly StoredOption[],
  list: SettingList,
  code: string,
  form: RegExp,
): string | null {
  const codes = options.filter((option) => option.list === list).map((option) => option.code ?? '');
  if (codes.length === 0 || codes.includes(code) || !codes.every((one) => form.test(one)))
    return null;
  return `there is no code ${nameCode(code)} (known codes: ${[...new Set(codes)].join(', ')})`;
}

/**
 * Names a code of a payload. What is no plain code may be any text, also a personal one: it is
 * quoted.
 */
export const nameCode = (code: string): string =>
  /^[\w.-]{1,64}$/.test(code) ? code : quote(code);

/** Returns the warehouses that offer a main shipping method. */
export const filterWarehouses = ({ offers }: ServiceLists, methodId: number): string[] =>
  offers.filter((offer) => offer.methodId === methodId).map(({ warehouse }) => warehouse);

function describeUnknownCode(
  options: readonly StoredOption[],
  list: SettingList,
  code: string,
  idMember: string,
) {
  const listed = options.filter((option) => option.list === list);
  const codes = [...new Set(listed.flatMap((option) => option.code || []))].join(', ') || 'none';
  const ids = listed.flatMap((option) => (option.code ? [] : [option.id])).sort((a, b) => a - b);
  const uncoded =
    ids.length === 0
      ? ''
      : `; entries without a code: ids ${ids.join(', ')}, which ${idMember} takes`;

  return `there is no code ${nameCode(code)} (known codes: ${codes}${uncoded})`;
}
