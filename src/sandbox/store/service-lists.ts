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
 * The service lists of one client, and the rules that depend on them. All rows use the ids of these
 * lists.
 */
export class ServiceLists {
  readonly #lists: Lists;
  readonly orderTypes: Lists['orderTypes'];
  readonly mainShippingMethods: Lists['mainShippingMethods'];
  readonly returnShippingMethods: Lists['returnShippingMethods'];
  /** The return reasons that are available to the client. */
  readonly returnReasons: Lists['returnReasons'];
  readonly languages: Lists['languages'];
  readonly countries: Lists['countries'];
  /** The warehouses of the fulfilment strategy. The first one has the id 1. */
  readonly warehouseCodes: readonly string[];

  constructor(given: z.infer<typeof givenSchema> = {}) {
    const chosen = Object.entries(given).filter(([, list]) => list !== undefined);
    const lists: Lists = { ...builtIn, ...Object.fromEntries(chosen) };
    const methods = lists.mainShippingMethods.flatMap(({ shippingMethods }) => shippingMethods);
    this.#lists = lists;
    this.orderTypes = lists.orderTypes;
    this.mainShippingMethods = lists.mainShippingMethods;
    this.returnShippingMethods = lists.returnShippingMethods;
    this.returnReasons = lists.returnReasons.filter(({ available }) => available !== false);
    this.languages = lists.languages;
    this.countries = lists.countries;
    this.warehouseCodes = [...new Set(methods.map(({ warehouse }) => warehouse))];
  }

  /** The lists as `GET settings/get` shows them. */
  get shown(): Readonly<Record<string, unknown>> {
    const { mainShippingMethods, ...others } = {
      ...this.#lists,
      returnReasons: this.returnReasons,
    };
    const show = ({ id, name, code }: z.infer<typeof option>) => ({ id, name, code });
    const shown = Object.entries(others).map(([list, entries]) => [list, entries.map(show)]);
    const shippingMethods = mainShippingMethods.flatMap((main) =>
      main.shippingMethods.map((method) => ({
        id: method.id,
        name: `${main.name} ${method.warehouse}`,
        code: `${main.code}_${method.warehouse}`,
      })),
    );
    return { mainShippingMethods, shippingMethods, ...Object.fromEntries(shown) };
  }

  /**
   * Returns whether an order of a type may leave in several parcels if it does not say so itself.
   */
  isDeliveredInParts(orderTypeId: number): boolean {
    return this.orderTypes.find(({ id }) => id === orderTypeId)?.partialDelivery ?? false;
  }

  /** Returns whether a return reason exists but is not available to the client. */
  isUnavailableReason(reasonId: number): boolean {
    const reason = this.#lists.returnReasons.find(({ id }) => id === reasonId);
    return reason?.available === false;
  }

  /**
   * Returns the code of a warehouse, which may be outside the fulfilment strategy; undefined if
   * there is none.
   */
  findWarehouseCode(warehouseId: number): string | undefined {
    const isOutside = warehouseId === warehouseOutsideStrategy.id;
    return (
      this.warehouseCodes[warehouseId - 1] ??
      (isOutside ? warehouseOutsideStrategy.code : undefined)
    );
  }

  #listMethods(mainMethodId: number) {
    return this.mainShippingMethods.find(({ id }) => id === mainMethodId)?.shippingMethods ?? [];
  }

  /**
   * Returns the id of the older shipping method that a warehouse uses for a main shipping method.
   */
  findShippingMethodId(mainMethodId: number, warehouseCode: string): number {
    const methods = this.#listMethods(mainMethodId);
    return (methods.find(({ warehouse }) => warehouse === warehouseCode) ?? methods[0])?.id ?? 0;
  }

  /**
   * Returns the codes of the warehouses that offer a main shipping method; all if it names none.
   */
  findOfferingWarehouses(mainMethodId: number | null): readonly string[] {
    const methods = this.#listMethods(mainMethodId ?? this.usualMethodId);
    if (methods.length === 0) return this.warehouseCodes;
    return this.warehouseCodes.filter((code) =>
      methods.some(({ warehouse }) => warehouse === code),
    );
  }

  /** The locale of an order that names none. */
  get usualLocale(): string {
    return this.languages.find(({ code }) => /^[a-z]{2}-[A-Z]{2}$/.test(code))?.code ?? 'nl-NL';
  }

  /** The main shipping method of an order that names none. */
  get usualMethodId(): number {
    return this.mainShippingMethods[0]?.id ?? 0;
  }
}

/** A file of service lists: lists for all clients, and lists of single clients in `clients`. */
export const chosenListsSchema = givenSchema.extend({
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
