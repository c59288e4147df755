import { readFileSync, statSync } from 'node:fs';
import { z } from 'zod';
import { describeError } from '../../core/errors.ts';

const id = z.int().min(1);
const text = z.string().min(1).max(200);
const option = z.strictObject({ id, name: text, code: text });

/** Returns the schema of a list that is not empty and whose ids and codes are unique. */
const listOf = <T extends z.ZodType<{ readonly id: number; readonly code: string }>>(entry: T) =>
  z
    .array(entry)
    .min(1)
    .refine((entries) => {
      const names = entries.flatMap((row) => [row.id, row.code]);
      return new Set(names).size === names.length;
    }, 'ids and codes must be unique');

/**
 * The service lists that a user chooses (docs/interface.md, 6.2 Settings). An absent list is the
 * built-in one.
 */
const listsSchema = z.strictObject({
  /** They name the older shipping methods and the warehouses, too. */
  mainShippingMethods: listOf(
    option.extend({
      shippingMethods: z.array(z.strictObject({ id, warehouse: text })).min(1),
    }),
  ),
  /** `paperless`: its label is a code that is shown at the counter. */
  returnShippingMethods: listOf(option.extend({ paperless: z.boolean().optional() })),
  /**
   * `partialDelivery`: whether an order may leave in several parcels if it does not say so itself.
   */
  orderTypes: listOf(option.extend({ partialDelivery: z.boolean().optional() })),
  /**
   * `available: false`: the reason exists but is not available to the client, and is not listed.
   */
  returnReasons: listOf(option.extend({ available: z.boolean().optional() })).refine(
    (reasons) => reasons.some(({ available }) => available !== false),
    'no reason is available',
  ),
  languages: listOf(option),
  countries: listOf(option),
  paymentMethods: listOf(option),
});
type Lists = z.infer<typeof listsSchema>;
const givenSchema = listsSchema.partial();

const parcel = [
  { id: 111, warehouse: 'AMS' },
  { id: 112, warehouse: 'EIN' },
];
const builtIn: Lists = {
  mainShippingMethods: [
    { id: 11, name: 'Parcel', code: 'PARCEL', shippingMethods: parcel },
    {
      id: 12,
      name: 'Letterbox',
      code: 'LETTERBOX',
      shippingMethods: [{ id: 121, warehouse: 'AMS' }],
    },
    { id: 13, name: 'Pallet', code: 'PALLET', shippingMethods: [{ id: 132, warehouse: 'EIN' }] },
  ],
  returnShippingMethods: [
    { id: 21, name: 'Return parcel', code: 'RETURN_PARCEL' },
    { id: 22, name: 'Paperless return', code: 'RETURN_PAPERLESS', paperless: true },
  ],
  orderTypes: [
    { id: 31, name: 'Consumer', code: 'B2C' },
    { id: 32, name: 'Business', code: 'B2B', partialDelivery: true },
  ],
  returnReasons: [
    { id: 41, name: 'Too small', code: 'TOO_SMALL' },
    { id: 42, name: 'Damaged', code: 'DAMAGED' },
    { id: 43, name: 'Changed my mind', code: 'REGRET' },
    { id: 49, name: 'Recall', code: 'RECALL', available: false },
  ],
  languages: [
    { id: 51, name: 'Nederlands', code: 'nl-NL' },
    { id: 52, name: 'Deutsch', code: 'de-DE' },
    { id: 53, name: 'Français', code: 'fr-BE' },
  ],
  countries: [
    { id: 61, name: 'Netherlands', code: 'NL' },
    { id: 62, name: 'Germany', code: 'DE' },
    { id: 63, name: 'Belgium', code: 'BE' },
  ],
  // Obsolete. The older order operation takes 1 (docs/interface.md, 15.2 Add order: fields).
  paymentMethods: [{ id: 1, name: 'Prepaid', code: 'PREPAID' }],
};

/** A warehouse of the service that is not part of the fulfilment strategy. */
const warehouseOutsideStrategy = { id: 3, code: 'ROT' } as const;
export const noReplyAddress = 'no-reply@fulfilment.example';

/**
 * Returns the service lists of one client, and the rules that depend on them. All rows use the ids
 * of these lists. `returnReasons` are those that are available to the client.
 */
export function createServiceLists(given: z.infer<typeof givenSchema> = {}) {
  const lists = { ...builtIn, ...given } as Lists;
  const { mainShippingMethods, orderTypes, languages } = lists;
  const returnReasons = lists.returnReasons.filter(({ available }) => available !== false);

  const methods = mainShippingMethods.flatMap(({ shippingMethods }) => shippingMethods);
  /** The warehouses of the fulfilment strategy. The first one has the v2 id 1. */
  const warehouseCodes = [...new Set(methods.map(({ warehouse }) => warehouse))];
  const listMethods = (mainMethodId: number | null) =>
    mainShippingMethods.find(({ id }) => id === mainMethodId)?.shippingMethods ?? [];
  /** The main shipping method of an order that names none. */
  const usualMethodId = mainShippingMethods[0]?.id ?? 0;

  return {
    ...lists,
    returnReasons,
    warehouseCodes,
    usualMethodId,
    /** The locale of an order that names none. */
    usualLocale: languages.find(({ code }) => /^[a-z]{2}-[A-Z]{2}$/.test(code))?.code ?? 'nl-NL',
    shown: showLists({ ...lists, returnReasons }),

    /** Returns whether an order of a type may leave in several parcels if it does not say so. */
    isDeliveredInParts: (orderTypeId: number): boolean =>
      orderTypes.find(({ id }) => id === orderTypeId)?.partialDelivery ?? false,

    /** Returns the code of a warehouse by its v2 id. It may be outside the fulfilment strategy. */
    findWarehouseCode: (warehouseId: number): string | undefined =>
      warehouseCodes[warehouseId - 1] ??
      (warehouseId === warehouseOutsideStrategy.id ? warehouseOutsideStrategy.code : undefined),

    /** Returns the id of the older method that a warehouse uses for a main shipping method. */
    findShippingMethodId(mainMethodId: number, warehouseCode: string): number {
      const offered = listMethods(mainMethodId);
      return (offered.find(({ warehouse }) => warehouse === warehouseCode) ?? offered[0])?.id ?? 0;
    },

    /** Returns the codes of the warehouses that offer a main shipping method. */
    findOfferingWarehouses(mainMethodId: number | null): readonly string[] {
      const offered = listMethods(mainMethodId ?? usualMethodId);
      return warehouseCodes.filter((code) => offered.some(({ warehouse }) => warehouse === code));
    },
  };
}
export type ServiceLists = ReturnType<typeof createServiceLists>;

/** The lists as `GET settings/get` shows them. */
export const shownListsSchema = z.strictObject({
  ...Object.fromEntries(
    [...Object.keys(listsSchema.shape), 'shippingMethods'].map((name) => [name, z.array(option)]),
  ),
  mainShippingMethods: listsSchema.shape.mainShippingMethods,
});

function showLists({ mainShippingMethods, ...others }: Lists) {
  const show = ({ id, name, code }: z.infer<typeof option>) => ({ id, name, code });
  const shown = Object.entries(others).map(([list, entries]) => [list, entries.map(show)]);
  const shippingMethods = mainShippingMethods.flatMap((main) =>
    main.shippingMethods.map(({ id, warehouse }) => ({
      id,
      name: `${main.name} ${warehouse}`,
      code: `${main.code}_${warehouse}`,
    })),
  );
  return { mainShippingMethods, shippingMethods, ...Object.fromEntries(shown) };
}

/** A file of service lists: lists for all clients, and lists of single clients in `clients`. */
const chosenListsSchema = givenSchema.extend({
  clients: z.record(z.string(), givenSchema).optional(),
});
export type ChosenLists = z.infer<typeof chosenListsSchema>;

const maxBytes = 1 << 20;

/**
 * Reads a JSON file of service lists for the clients of a sandbox.
 * @throws Error that names the file, the member, and what is wrong
 */
export function readListsFile(file: string, clients: readonly string[]): ChosenLists {
  try {
    const { size } = statSync(file);
    if (size > maxBytes) throw new Error(`it has ${size} bytes; the limit is ${maxBytes}`);

    const lists = chosenListsSchema.parse(JSON.parse(readFileSync(file, 'utf8')));
    const stranger = Object.keys(lists.clients ?? {}).find((name) => !clients.includes(name));
    if (stranger === undefined) return lists;
    throw new Error(`clients.${stranger}: the sandbox has only the clients ${clients.join(', ')}`);
  } catch (cause) {
    const problem = cause instanceof z.ZodError ? z.prettifyError(cause) : describeError(cause);
    throw new Error(`${file} cannot be used: ${problem}`, { cause });
  }
}
