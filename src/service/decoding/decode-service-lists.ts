import { makeUndecodableError, type WarehouseError } from '../../core/errors.ts';
import { isObject, type Json, parseExact, toStorableJson } from '../../core/json.ts';
import { decodeStorable, type Fields, ownId, text, toKeyText, type ValueOf } from './fields.ts';

/** Lists of settings/get (docs/interface.md, 6.2 Settings). */
const settingLists = [
  'mainShippingMethods',
  'shippingMethods',
  'returnShippingMethods',
  'orderTypes',
  'returnReasons',
  'languages',
  'countries',
  'paymentMethods',
] as const;
export type SettingList = (typeof settingLists)[number];

/** A name is only shown: an entry with another value is used without it. */
const name: typeof text = {
  ...text,
  read: (value) => (typeof value === 'string' ? value : null),
};
const optionFields = { id: ownId, name, code: text };
const warehouse: typeof text = {
  ...text,
  read: (value, zone) => {
    const code = text.read(value, zone);
    return code === null ? null : toKeyText(code);
  },
};
const methodFields = { id: ownId, warehouse };

/** One entry of a list of settings. */
interface SettingOption {
  readonly list: SettingList;
  readonly id: number;
  readonly code: string | null;
  readonly name: string | null;
  readonly raw: Json;
}

/** The shipping method that a warehouse uses for a main shipping method. */
interface MethodWarehouse {
  readonly mainShippingMethodId: number;
  readonly shippingMethodId: number;
  readonly warehouse: string;
}

/** The decoded answer of settings/get. */
export interface DecodedLists {
  readonly options: readonly SettingOption[];
  readonly warehouses: readonly MethodWarehouse[];
  /**
   * Lists that the answer does not have, not even empty ones. Nothing is known about their entries.
   */
  readonly absentLists: readonly SettingList[];
  /**
   * Ids of main shipping methods that came without their list of methods. Nothing is known about
   * their warehouses.
   */
  readonly withoutWarehouses: readonly number[];
  /** What cannot be read. The stored entries of its list stay, because it may be one of them. */
  readonly unreadable: readonly UnreadableEntry[];
}

/** An entry that cannot be read, or a list that is none. */
interface UnreadableEntry {
  readonly list: SettingList;
  /** Names the member at fault. */
  readonly problem: string;
}

/**
 * Decodes the result of settings/get (docs/interface.md, 6.2 Settings), without what Postgres
 * cannot store. Skips entries that cannot be read.
 * @throws WarehouseError `undecodable` if the answer has no list, or only lists of which no entry can
 *   be read. Then nothing of the answer is used.
 */
export function decodeServiceLists(answered: Json): DecodedLists {
  const result = parseExact(toStorableJson(answered));
  if (!isObject(result)) throw makeSettingsError('result: is not an object');
  const unreadable: UnreadableEntry[] = [];

  // Any list may be absent, because a client may have no use for it. Then its stored entries stay.
  const absentLists = settingLists.filter((list) => (result[list] ?? null) === null);
  const options = settingLists.flatMap((list) =>
    readEntries({ list, path: list, entries: result[list], unreadable }, optionFields).map(
      ({ value, raw }) => ({ list, ...value, raw }),
    ),
  );
  const warehouses = readMethodWarehouses(result.mainShippingMethods, unreadable);

  if (absentLists.length === settingLists.length)
    throw makeSettingsError('the answer has none of the lists');
  if (options.length === 0 && unreadable[0] !== undefined)
    throw makeSettingsError(unreadable[0].problem);

  const withoutWarehouses = options.flatMap(({ list, id, raw }) =>
    list === 'mainShippingMethods' && isObject(raw) && (raw.shippingMethods ?? null) === null
      ? [id]
      : [],
  );

  return { options, warehouses, absentLists, withoutWarehouses, unreadable };
}

/** Reads the methods inside the main shipping methods. Leaves out those without a warehouse. */
function readMethodWarehouses(
  mainMethods: Json | undefined,
  unreadable: UnreadableEntry[],
): MethodWarehouse[] {
  const list = 'mainShippingMethods';
  // Main methods that cannot be read were noted before.
  const main = readEntries(
    { list, path: list, entries: mainMethods, unreadable: [] },
    optionFields,
  );

  return main.flatMap(({ value: { id: mainShippingMethodId }, raw, index }) => {
    const path = `${list}.${index}.shippingMethods`;
    const entries = isObject(raw) ? raw.shippingMethods : null;

    return readEntries({ list, path, entries, unreadable }, methodFields).flatMap(
      ({ value: { id: shippingMethodId, warehouse } }) =>
        warehouse === null ? [] : [{ mainShippingMethodId, shippingMethodId, warehouse }],
    );
  });
}

/** A list as received, and where what cannot be read is noted. */
interface ReceivedList {
  readonly list: SettingList;
  readonly path: string;
  readonly entries: Json | undefined;
  readonly unreadable: UnreadableEntry[];
}

/** Decodes the entries of a list, each with what was received. Notes and skips unreadable ones. */
function readEntries<Of extends Fields>(
  { list, path, entries, unreadable }: ReceivedList,
  fields: Of,
) {
  const read: {
    value: { readonly [Member in keyof Of]: ValueOf<Of[Member]> };
    raw: Json;
    index: number;
  }[] = [];
  if (entries === null || entries === undefined) return read;
  if (!Array.isArray(entries)) {
    unreadable.push({ list, problem: `${path}: is not a list` });
    return read;
  }

  for (const [index, raw] of entries.entries()) {
    const decoded = decodeStorable(fields, raw);
    if ('value' in decoded) {
      read.push({ value: decoded.value, raw, index });
      continue;
    }

    const { path: inner, reason } = decoded.problem;
    const place = [path, index, inner].filter((part) => part !== '').join('.');
    unreadable.push({ list, problem: `${place}: ${reason}` });
  }
  return read;
}

function makeSettingsError(problem: string): WarehouseError {
  const operation = 'common.settings.get';
  return makeUndecodableError(`${operation}: ${problem}`, operation);
}
