import { readFileSync, statSync } from 'node:fs';
import { parseDocument } from 'yaml';
import { z } from 'zod';

const maxEntries = 1_000;
const id = z.int().min(1);
const text = z.string().min(1).max(200);
const option = z.strictObject({ id, name: text, code: text });

/** Returns the schema of a list whose ids and codes are unique. */
function uniqueListSchema<T extends z.ZodType<{ readonly id: number; readonly code: string }>>(entry: T, fewest = 0) {
  return z
    .array(entry)
    .min(fewest)
    .max(maxEntries)
    .superRefine((entries, context) => {
      for (const member of ['id', 'code'] as const) {
        const seen = new Set<number | string>();
        for (const [index, row] of entries.entries()) {
          if (seen.has(row[member]))
            context.addIssue({ code: 'custom', path: [index, member], message: `${row[member]} is there already` });
          seen.add(row[member]);
        }
      }
    });
}

/** The service lists that a user chooses (docs/interface.md, 6.2 Settings). An absent list is the built-in one. */
const listsSchema = z.strictObject({
  mainShippingMethods: uniqueListSchema(
    option.extend({ shippingMethods: z.array(z.strictObject({ id, warehouse: text })).max(maxEntries) }),
    1,
  ).optional(),
  shippingMethods: uniqueListSchema(option).optional(),
  /** `paperless`: its label is a code that is shown at the counter. */
  returnShippingMethods: uniqueListSchema(option.extend({ paperless: z.boolean().optional() }), 1).optional(),
  /** `partialDelivery`: whether an order may leave in several parcels if it does not say so itself. */
  orderTypes: uniqueListSchema(option.extend({ partialDelivery: z.boolean().optional() }), 1).optional(),
  /** `available: false`: the reason exists but is not available to the client, and is not listed. */
  returnReasons: uniqueListSchema(option.extend({ available: z.boolean().optional() }), 1)
    .refine((reasons) => reasons.some(({ available }) => available !== false), 'no reason is available')
    .optional(),
  languages: uniqueListSchema(option, 1).optional(),
  countries: uniqueListSchema(option).optional(),
  paymentMethods: uniqueListSchema(option).optional(),
  /** The warehouses of the fulfilment strategy. Absent: those that `mainShippingMethods` names. */
  warehouses: uniqueListSchema(z.strictObject({ id, code: text }), 1).optional(),
});
export type GivenLists = z.infer<typeof listsSchema>;
type Lists = { readonly [List in keyof GivenLists]-?: NonNullable<GivenLists[List]> };

const builtIn: Lists = {
  mainShippingMethods: [
    {
      id: 11,
      name: 'Parcel',
      code: 'PARCEL',
      shippingMethods: [
        { id: 111, warehouse: 'AMS' },
        { id: 112, warehouse: 'EIN' },
      ],
    },
    { id: 12, name: 'Letterbox', code: 'LETTERBOX', shippingMethods: [{ id: 121, warehouse: 'AMS' }] },
    { id: 13, name: 'Pallet', code: 'PALLET', shippingMethods: [{ id: 132, warehouse: 'EIN' }] },
  ],
  shippingMethods: [
    { id: 111, name: 'Parcel AMS', code: 'PARCEL_AMS' },
    { id: 112, name: 'Parcel EIN', code: 'PARCEL_EIN' },
    { id: 121, name: 'Letterbox AMS', code: 'LETTERBOX_AMS' },
    { id: 132, name: 'Pallet EIN', code: 'PALLET_EIN' },
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
  paymentMethods: [],
  warehouses: [
    { id: 1, code: 'AMS' },
    { id: 2, code: 'EIN' },
  ],
};

/** A warehouse of the service that is not part of the fulfilment strategy. */
const warehouseOutsideStrategy = { id: 3, code: 'ROT' } as const;
export const noReplyAddress = 'no-reply@fulfilment.example';

/** The service lists of one client, and the rules that depend on them. All rows use the ids of these lists. */
export class ServiceLists {
  readonly #lists: Lists;
  readonly orderTypes: Lists['orderTypes'];
  readonly mainShippingMethods: Lists['mainShippingMethods'];
  readonly returnShippingMethods: Lists['returnShippingMethods'];
  /** The return reasons that are available to the client. */
  readonly returnReasons: Lists['returnReasons'];
  readonly languages: Lists['languages'];
  readonly countries: Lists['countries'];
  readonly warehouseCodes: readonly string[];

  constructor(given: GivenLists = {}) {
    const named = given.mainShippingMethods && { warehouses: findNamedWarehouses(given.mainShippingMethods) };
    const lists = { ...builtIn, ...named, ...keepGiven(given) };
    this.#lists = lists;
    this.orderTypes = lists.orderTypes;
    this.mainShippingMethods = lists.mainShippingMethods;
    this.returnShippingMethods = lists.returnShippingMethods;
    this.returnReasons = lists.returnReasons.filter(({ available }) => available !== false);
    this.languages = lists.languages;
    this.countries = lists.countries;
    this.warehouseCodes = lists.warehouses.map(({ code }) => code);
  }

  /** The lists as `GET settings/get` shows them. */
  get shown(): Readonly<Record<string, unknown>> {
    const { warehouses: _, ...lists } = this.#lists;
    const show = ({ id, name, code }: z.infer<typeof option>) => ({ id, name, code });
    return {
      ...Object.fromEntries(Object.entries(lists).map(([list, entries]) => [list, entries.map(show)])),
      mainShippingMethods: lists.mainShippingMethods,
      returnReasons: this.returnReasons.map(show),
    };
  }

  /** Returns whether an order of a type may leave in several parcels if it does not say so itself. */
  isDeliveredInParts(orderTypeId: number): boolean {
    return this.orderTypes.find(({ id }) => id === orderTypeId)?.partialDelivery ?? false;
  }

  /** Returns whether a return reason exists but is not available to the client. */
  isUnavailableReason(reasonId: number): boolean {
    return this.#lists.returnReasons.some(({ id, available }) => id === reasonId && available === false);
  }

  /** Returns the code of a warehouse, which may be outside the fulfilment strategy; undefined if there is none. */
  findWarehouseCode(warehouseId: number): string | undefined {
    return [...this.#lists.warehouses, warehouseOutsideStrategy].find(({ id }) => id === warehouseId)?.code;
  }

  /** Returns the id of the older shipping method that a warehouse uses for a main shipping method. */
  findShippingMethodId(mainMethodId: number, warehouseCode: string): number {
    const methods = this.mainShippingMethods.find(({ id }) => id === mainMethodId)?.shippingMethods ?? [];
    return (methods.find(({ warehouse }) => warehouse === warehouseCode) ?? methods[0])?.id ?? 0;
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

function keepGiven(given: GivenLists): Partial<Lists> {
  return Object.fromEntries(Object.entries(given).filter(([, list]) => list !== undefined));
}

/** Returns the warehouses that main shipping methods name; the built-in ones if they name none. */
function findNamedWarehouses(methods: Lists['mainShippingMethods']): Lists['warehouses'] {
  const codes = new Set(methods.flatMap(({ shippingMethods }) => shippingMethods.map(({ warehouse }) => warehouse)));
  return codes.size === 0 ? builtIn.warehouses : [...codes].map((code, index) => ({ id: index + 1, code }));
}

/** A file of service lists: lists for all clients, and lists of single clients in `clients`. */
export const chosenListsSchema = listsSchema.extend({
  clients: z.record(z.string(), listsSchema).optional(),
});
export type ChosenLists = z.infer<typeof chosenListsSchema>;

/** Reads a file of service lists. */
export function readListsFile(file: string, clients: readonly string[]): ChosenLists {
  const lists = readDocument(file, chosenListsSchema);
  for (const name of Object.keys(lists.clients ?? {}))
    if (!clients.includes(name))
      throw new DocumentError(file, [`clients.${name}: the sandbox has only the clients ${clients.join(', ')}`]);
  return lists;
}

const maxBytes = 1 << 20;

/** The error of a file that a user wrote. The message names the file and the member, and what is wrong. */
export class DocumentError extends Error {
  constructor(file: string, problems: readonly string[], options?: ErrorOptions) {
    super([`${file} cannot be used:`, ...problems].join(problems.length > 1 ? '\n  ' : ' '), options);
    this.name = 'DocumentError';
  }
}

function readDocument<T extends z.ZodType>(file: string, schema: T): z.output<T> {
  const parsed = schema.safeParse(parseText(file, readText(file)));
  if (parsed.success) return parsed.data;
  const problems = parsed.error.issues.slice(0, 10).map(({ path, message }) => {
    const place = path.map(String).join('.');
    return place === '' ? message : `${place}: ${message}`;
  });
  throw new DocumentError(file, problems);
}

function readText(file: string): string {
  try {
    const { size } = statSync(file);
    if (size > maxBytes) throw new DocumentError(file, [`it has ${size} bytes; the limit is ${maxBytes}`]);
    return readFileSync(file, 'utf8');
  } catch (cause) {
    if (cause instanceof DocumentError) throw cause;
    throw new DocumentError(file, [cause instanceof Error ? cause.message : String(cause)], { cause });
  }
}

function parseText(file: string, text: string): unknown {
  const document = parseDocument(text);
  const [first] = document.errors;
  if (first !== undefined) throw new DocumentError(file, [first.message]);
  try {
    return document.toJS({ maxAliasCount: 100 });
  } catch (cause) {
    // Aliases that multiply without bound.
    throw new DocumentError(file, [cause instanceof Error ? cause.message : String(cause)], { cause });
  }
}
