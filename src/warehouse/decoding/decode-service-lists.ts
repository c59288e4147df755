import { z } from 'zod';
import { makeUndecodableError } from '../../core/errors.ts';
import type { Json } from '../../core/json.ts';
import { idSchema } from './jsonapi.ts';
import { text } from './members.ts';

/** Lists of settings/get (docs/interface.md, 6.2 Settings). */
export const settingLists = [
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

const option = z.looseObject({ id: idSchema, name: text, code: text });
const mainMethod = option.extend({
  shippingMethods: z.array(z.looseObject({ id: idSchema, warehouse: text })).nullish(),
});
/** Any list may be absent, because a client may have no use for it. Then its stored entries stay. */
const settingsSchema = z.looseObject({
  mainShippingMethods: z.array(mainMethod).nullish(),
  shippingMethods: z.array(option).nullish(),
  returnShippingMethods: z.array(option).nullish(),
  orderTypes: z.array(option).nullish(),
  returnReasons: z.array(option).nullish(),
  languages: z.array(option).nullish(),
  countries: z.array(option).nullish(),
  paymentMethods: z.array(option).nullish(),
});

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
  /** Lists that the answer does not have, not even empty ones. Nothing is known about their entries. */
  readonly absentLists: readonly SettingList[];
}

/**
 * Decodes the result of settings/get (docs/interface.md, 6.2 Settings).
 * @throws WarehouseError `undecodable` that names the member at fault, or if the answer has none of the lists; then
 *   nothing of the answer is used
 */
export function decodeServiceLists(result: Json): DecodedLists {
  const read = settingsSchema.safeParse(result);
  if (!read.success) {
    const issue = read.error.issues[0];
    const where = issue?.path.join('.') || 'result';
    throw makeUndecodableError(`common.settings.get: ${where}: ${issue?.message ?? 'cannot be decoded'}`);
  }
  const absentLists = settingLists.filter((list) => (read.data[list] ?? null) === null);
  if (absentLists.length === settingLists.length)
    throw makeUndecodableError('common.settings.get: the answer has none of the lists');
  const received = result as Readonly<Record<SettingList, readonly Json[] | null | undefined>>;
  const options = settingLists.flatMap((list) =>
    (read.data[list] ?? []).map(({ id, code, name }, index) => ({
      list,
      id,
      code,
      name,
      raw: received[list]?.[index] ?? null,
    })),
  );
  const warehouses = (read.data.mainShippingMethods ?? []).flatMap(({ id, shippingMethods }) =>
    (shippingMethods ?? []).flatMap(({ id: shippingMethodId, warehouse }) =>
      warehouse === null ? [] : [{ mainShippingMethodId: id, shippingMethodId, warehouse }],
    ),
  );
  return { options, warehouses, absentLists };
}
