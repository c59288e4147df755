import { makeUndecodableError, type WarehouseError } from '../../core/errors.ts';
import { isObject, type Json } from '../../core/json.ts';
import { decodeMembers, type Fields, ownId, text, type ValueOf } from './fields.ts';

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

const optionFields = { id: ownId, name: text, code: text };
const methodFields = { id: ownId, warehouse: text };

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
}

/**
 * Decodes the result of settings/get (docs/interface.md, 6.2 Settings).
 * @throws WarehouseError `undecodable` that names the member at fault, or if the answer has none of
 *   the lists; then nothing of the answer is used
 */
export function decodeServiceLists(result: Json): DecodedLists {
  if (!isObject(result)) throw makeListsError('result', 'is not an object');

  // Any list may be absent, because a client may have no use for it. Then its stored entries stay.
  const absentLists = settingLists.filter((list) => (result[list] ?? null) === null);
  const options = settingLists.flatMap((list) =>
    readEntries(list, result[list], optionFields).map(({ value, raw }) => ({
      list,
      ...value,
      raw,
    })),
  );
  const warehouses = readMethodWarehouses(result.mainShippingMethods);

  if (absentLists.length === settingLists.length)
    throw makeSettingsError('the answer has none of the lists');

  return { options, warehouses, absentLists };
}

/** Reads the methods inside the main shipping methods. Leaves out those without a warehouse. */
function readMethodWarehouses(list: Json | undefined): MethodWarehouse[] {
  const mainMethods = readEntries('mainShippingMethods', list, optionFields);

  return mainMethods.flatMap(({ value: { id: mainShippingMethodId }, raw }, index) => {
    const path = `mainShippingMethods.${index}.shippingMethods`;
    const methods = readEntries(path, isObject(raw) ? raw.shippingMethods : null, methodFields);

    return methods.flatMap(({ value: { id: shippingMethodId, warehouse } }) =>
      warehouse === null ? [] : [{ mainShippingMethodId, shippingMethodId, warehouse }],
    );
  });
}

/** Decodes the entries of a list, each with what was received. */
function readEntries<Of extends Fields>(path: string, list: Json | undefined, fields: Of) {
  if (list === null || list === undefined) return [];
  if (!Array.isArray(list)) throw makeListsError(path, 'is not a list');

  return list.map(
    (raw, index): { value: { readonly [Member in keyof Of]: ValueOf<Of[Member]> }; raw: Json } => {
      const decoded = decodeMembers(fields, raw);
      if ('value' in decoded) return { value: decoded.value, raw };

      const { path: inner, reason } = decoded.problem;
      const place = [path, index, inner].filter((part) => part !== '').join('.');
      throw makeListsError(place, reason);
    },
  );
}

const makeListsError = (path: string, reason: string) => makeSettingsError(`${path}: ${reason}`);

function makeSettingsError(problem: string): WarehouseError {
  const operation = 'common.settings.get';
  return makeUndecodableError(`${operation}: ${problem}`, operation);
}
