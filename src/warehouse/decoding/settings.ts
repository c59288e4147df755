import { z } from 'zod';
import { undecodableAnswer } from '../../core/errors.ts';
import type { Json } from '../../core/json.ts';
import { idSchema } from './jsonapi.ts';

/** Lists of settings/get (interface.md, Settings result). */
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

const text = z
  .string()
  .nullish()
  .transform((value) => value ?? null);
const option = z.looseObject({ id: idSchema, name: text, code: text });
const mainMethod = option.extend({
  shippingMethods: z.array(z.looseObject({ id: idSchema, warehouse: text })).nullish(),
});
/** Lists that nothing is named by may be missing; what is stored of them stays then. */
const settingsSchema = z.looseObject({
  mainShippingMethods: z.array(mainMethod),
  shippingMethods: z.array(option).nullish(),
  returnShippingMethods: z.array(option),
  orderTypes: z.array(option),
  returnReasons: z.array(option),
  languages: z.array(option).nullish(),
  countries: z.array(option).nullish(),
  paymentMethods: z.array(option).nullish(),
});

/** One entry of a list. */
interface SettingOption {
  readonly list: SettingList;
  readonly id: number;
  readonly code: string | null;
  readonly name: string | null;
  readonly raw: Json;
}

/** By which method a warehouse sends what a main shipping method names. */
interface MethodWarehouse {
  readonly mainShippingMethodId: number;
  readonly shippingMethodId: number;
  readonly warehouse: string;
}

/** All of settings/get. */
export interface Settings {
  readonly options: readonly SettingOption[];
  readonly warehouses: readonly MethodWarehouse[];
}

/**
 * Reads the result of settings/get.
 * @throws WarehouseError `undecodable` that names the member: of a broken answer nothing is taken
 */
export function decodeSettings(result: Json): Settings {
  const read = settingsSchema.safeParse(result);
  if (!read.success) {
    const issue = read.error.issues[0];
    const where = issue?.path.join('.') || 'result';
    throw undecodableAnswer(`common.settings.get: ${where}: ${issue?.message ?? 'cannot be decoded'}`);
  }
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
  const warehouses = read.data.mainShippingMethods.flatMap(({ id, shippingMethods }) =>
    (shippingMethods ?? []).flatMap(({ id: shippingMethodId, warehouse }) =>
      warehouse === null ? [] : [{ mainShippingMethodId: id, shippingMethodId, warehouse }],
    ),
  );
  return { options, warehouses };
}
