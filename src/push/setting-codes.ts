import { pauses } from '../core/backoff.ts';
import { hasCode, WarehouseError } from '../core/errors.ts';
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
  type CodeLists,
  concernsAllRows,
  type JsonObject,
  type KnownCodes,
  PayloadError,
  type PayloadProblem,
  PostponedError,
  problemAt,
} from './kind.ts';
import { isGiven } from './payload.ts';

/** Time that entries are kept in memory, in milliseconds. */
const keptMs = 30_000;
/** The lists of one client. They are read again if they lack something, because it may be new. */
export class SettingCodes implements CodeLists {
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

  async read(): Promise<ServiceLists> {
    if (this.#kept === undefined || performance.now() > this.#kept.untilMs) {
      const lists = await readServiceLists(this.#db, this.#account.client);
      this.#kept = { lists, untilMs: performance.now() + keptMs };
    }
    return this.#kept.lists;
  }

  /**
   * Reads the settings, unless that was done recently. Concurrent callers wait for the same read.
   * @throws WarehouseError if the service does not answer, refuses the credentials, or asks to wait
   * @throws PostponedError if they cannot be read now: reading them fails or has failed recently, or
   *   another worker reads them
   */
  async refresh(signal: AbortSignal): Promise<ServiceLists> {
    this.#refreshing ??= this.#readAgain(signal).finally(() => {
      this.#refreshing = undefined;
      this.#kept = undefined;
    });
    await this.#refreshing;
    return this.read();
  }

  async #readAgain(signal: AbortSignal): Promise<void> {
    const turn = await takeListsTurn(this.#db, this.#account.client, pauses.serviceLists.firstMs);
    if (turn === 'recent') return;
    if (turn === 'later') throw makeSettingsUnread('the settings could not be read');
    try {
      await readListsNow(this.#db, this.#account, this.#warehouse, signal);
    } catch (error) {
      // What concerns all requests holds the client. Any other failure does not lie in the row.
      const isAnswered = error instanceof WarehouseError && !concernsAllRows(error);
      if (!isAnswered && !hasCode(error, 'settings_unread')) throw error;
      throw makeSettingsUnread(error.message);
    }
  }
}

const makeSettingsUnread = (reason: string) =>
  new PostponedError(
    'settings_unread',
    `the code could not be checked, because ${reason}; the settings will be read again soon`,
    pauses.serviceLists.firstMs,
  );

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
 * @param path place of `value` in the payload
 */
export function findCodeProblems(
  value: JsonObject,
  member: CodedMember,
  known: KnownCodes,
  path: PayloadProblem['path'] = [],
): PayloadProblem[] {
  const { byCode, byId, required } = member;
  const given = Number(isGiven(value, byCode)) + Number(isGiven(value, byId));
  if (given === 2 || (required && given === 0))
    return [problemAt([...path, byCode], `give either ${byCode} (code) or ${byId}`)];

  const code = value[byCode];
  if (typeof code !== 'string' || code === '') return [];

  const found = findCode(member, code, known);

  return 'problem' in found ? [problemAt([...path, byCode], found.problem)] : [];
}

/**
 * Returns the id that a payload names by id or code; null if it names none.
 * @throws PayloadError if the code has no single id: the settings have changed since the payload
 *   was checked
 */
export async function findNamedId(
  value: { readonly [member: string]: unknown },
  member: CodedMember,
  { codes }: Pick<CheckContext, 'codes'>,
  path: PayloadProblem['path'] = [],
): Promise<number | null> {
  const { byCode, byId } = member;
  const { [byId]: id, [byCode]: code } = value;
  if (typeof id === 'number') return id;
  if (typeof code !== 'string') return null;

  const found = findCode(member, code, { lists: await codes.read(), lacks: false });
  if ('problem' in found) throw new PayloadError([problemAt([...path, byCode], found.problem)]);

  return found.id;
}

/** The id of a code; or why it has none or several, in words. */
type CodeResult = { readonly id: number } | { readonly problem: string };

/** Codes that are not compared with anything. */
export const anyCode: CodeLists = { read: async () => null };

/**
 * Reads the stored codes of a client. They are not compared with the service again; `unchecked`
 * says why any code is taken.
 */
export async function readStoredCodes(
  db: Database,
  client: string,
): Promise<{ codes: CodeLists; unchecked: string | null }> {
  const lists = await readServiceLists(db, client);
  if (lists.options.length === 0)
    return {
      codes: anyCode,
      unchecked: `no service lists are stored for the client ${client}; run refresh-settings first`,
    };

  return { codes: { read: async () => lists }, unchecked: null };
}

/**
 * Returns the id of a code; or the problem in words if no entry of the list has it, or several.
 */
export function findCode(
  { list, byId }: Pick<CodedMember, 'list' | 'byId'>,
  code: string,
  known: KnownCodes,
): CodeResult {
  if (known.lists === null) return { id: 0 };
  const options = known.lists.options.filter((option) => option.list === list);
  const found = options.filter((option) => option.code === code);
  const [first, ...others] = found;
  if (first === undefined) {
    known.lacks = true;
    return { problem: describeUnknownCode(options, code, byId) };
  }
  if (others.length === 0) return { id: first.id };

  const ids = found.map(({ id }) => id).join(', ');

  return {
    problem:
      `several entries have the code ${nameCode(code)} (ids ${ids}), ` + `so use ${byId} instead`,
  };
}

/**
 * Returns the problem of a code that a list lacks; null if there is none. The interface does not
 * show what the codes of a list look like: a list that is empty, or has an entry of another form,
 * is not compared.
 */
export function findListProblem(
  list: SettingList,
  code: string,
  form: RegExp,
  known: KnownCodes,
): string | null {
  const listed = (known.lists?.options ?? []).filter((option) => option.list === list);
  const codes = listed.map((option) => option.code ?? '');
  if (codes.length === 0 || codes.includes(code) || !codes.every((one) => form.test(one)))
    return null;

  known.lacks = true;
  return `there is no code ${nameCode(code)} (known codes: ${[...new Set(codes)].join(', ')})`;
}

/**
 * Returns the warehouses that offer a main shipping method; none if unknown.
 * @param wanted should be among them
 */
export function findWarehouses(
  methodId: number,
  wanted: readonly string[],
  known: KnownCodes,
): string[] {
  const offers = (known.lists?.offers ?? []).filter((offer) => offer.methodId === methodId);
  const offered = offers.map(({ warehouse }) => warehouse);
  if (offered.length > 0 && !wanted.every((warehouse) => offered.includes(warehouse)))
    known.lacks = true;
  return offered;
}

/**
 * Names a code of a payload. What is no plain code may be any text, also a personal one: it is
 * quoted.
 */
export const nameCode = (code: string): string =>
  /^[\w.-]{1,64}$/.test(code) ? code : quote(code);

/**
 * Returns the problem of an unknown code, with what can be used instead.
 * @param listed the entries of its list
 * @param idMember member of the payload that takes an id instead of the code
 */
function describeUnknownCode(listed: readonly StoredOption[], code: string, idMember: string) {
  const codes = [...new Set(listed.flatMap((option) => option.code || []))].join(', ') || 'none';
  const ids = listed.flatMap((option) => (option.code ? [] : [option.id])).sort((a, b) => a - b);
  const uncoded =
    ids.length === 0
      ? ''
      : `; entries without a code: ids ${ids.join(', ')}, which ${idMember} takes`;

  return `there is no code ${nameCode(code)} (known codes: ${codes}${uncoded})`;
}
