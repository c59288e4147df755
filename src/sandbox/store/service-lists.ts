import { readFileSync, statSync } from 'node:fs';
import { parse } from 'yaml';
import { z } from 'zod';

const maxEntries = 1_000;
const id = z.int().min(1);
const text = z.string().min(1).max(200);
const option = z.strictObject({ id, name: text, code: text });

/** Returns the schema of a list whose ids and codes are unique. */
function uniqueListSchema<T extends z.ZodType<{ readonly id: number; readonly code: string }>>(
  entry: T,
  fewest = 0,
) {
  return z
    .array(entry)
    .min(fewest)
    .max(maxEntries)
    .superRefine((entries, context) => {
      for (const member of ['id', 'code'] as const) {
        const seen = new Set<number | string>();
        for (const [index, row] of entries.entries()) {
          if (seen.has(row[member]))
            context.addIssue({
              code: 'custom',
              path: [index, member],
              message: `${row[member]} is there already`,
            });
          seen.add(row[member]);
        }
      }
    });
}

/**
 * The service lists that a user chooses (docs/interface.md, 6.2 Settings). An absent list is the
 * built-in one.
 */
const listsSchema = z.strictObject({
  mainShippingMethods: uniqueListSchema(
    option.extend({
      shippingMethods: z.array(z.strictObject({ id, warehouse: text })).max(maxEntries),
    }),
    1,
  ).optional(),
  /** Absent: those of `mainShippingMethods`. */
  shippingMethods: uniqueListSchema(option).optional(),
  /** `paperless`: its label is a code that is shown at the counter. */
  returnShippingMethods: uniqueListSchema(
    option.extend({ paperless: z.boolean().optional() }),
    1,
  ).optional(),
  /**
   * `partialDelivery`: whether an order may leave in several parcels if it does not say so itself.
   */
  orderTypes: uniqueListSchema(
    option.extend({ partialDelivery: z.boolean().optional() }),
    1,
  ).optional(),
  /**
   * `available: false`: the reason exists but is not available to the client, and is not listed.
   */
  returnReasons: uniqueListSchema(option.extend({ available: z.boolean().optional() }), 1)
    .refine(
      (reasons) => reasons.some(({ available }) => available !== false),
      'no reason is available',
    )
    .optional(),
  languages: uniqueListSchema(option, 1).optional(),
  countries: uniqueListSchema(option).optional(),
  paymentMethods: uniqueListSchema(option).optional(),
  /** The warehouses of the fulfilment strategy. Absent: those that `mainShippingMethods` names. */
  warehouses: uniqueListSchema(z.strictObject({ id, code: text }), 1).optional(),
});
type GivenLists = z.infer<typeof listsSchema>;
type Lists = { readonly [List in keyof GivenLists]-?: NonNullable<GivenLists[List]> };

const parcel = [
  { id: 111, warehouse: 'AMS' },
  { id: 112, warehouse: 'EIN' },
];
const builtIn: Omit<Lists, 'shippingMethods' | 'warehouses'> = {
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
 * Returns all lists: the given ones, and for the others the built-in ones or what the main shipping
 * methods name.
 */
function completeLists(given: GivenLists): Lists {
  const chosen = Object.entries(given).filter(([, list]) => list !== undefined);
  const lists = { ...builtIn, ...(Object.fromEntries(chosen) as Partial<Lists>) };
  const nested = lists.mainShippingMethods.flatMap(({ name, code, shippingMethods }) =>
    shippingMethods.map(({ id, warehouse }) => ({
      id,
      warehouse,
      name: `${name} ${warehouse}`,
      code: `${code}_${warehouse}`,
    })),
  );
  const codes = [...new Set(nested.map(({ warehouse }) => warehouse))];
  return {
    shippingMethods: nested.map(({ id, name, code }) => ({ id, name, code })),
    warehouses: codes.map((code, index) => ({ id: index + 1, code })),
    ...lists,
  };
}

/** Returns where lists contradict each other, each as the entry and what is wrong. */
function findContradictions({ mainShippingMethods, shippingMethods, warehouses }: Lists): string[] {
  const nested = mainShippingMethods.flatMap((main) =>
    main.shippingMethods.map((method) => ({ main, ...method })),
  );
  const unknown = nested.filter(({ id }) => !shippingMethods.some((method) => method.id === id));
  const elsewhere = nested.filter(
    ({ warehouse }) => !warehouses.some(({ code }) => code === warehouse),
  );
  const unused = shippingMethods.filter(({ id }) => !nested.some((method) => method.id === id));
  return [
    ...unknown.map(
      ({ main, id }) => `mainShippingMethods ${main.id}: shippingMethods has no method ${id}`,
    ),
    ...elsewhere.map(
      ({ main, warehouse }) => `mainShippingMethods ${main.id}: warehouses has no ${warehouse}`,
    ),
    ...unused.map(
      ({ id, code }) => `shippingMethods ${id} (${code}): no main shipping method has it`,
    ),
    ...(nested.length === 0 ? ['mainShippingMethods: none has a shipping method'] : []),
  ];
}

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
  readonly warehouseCodes: readonly string[];

  constructor(given: GivenLists = {}) {
    const lists = completeLists(given);
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
    const { mainShippingMethods, warehouses: _, ...lists } = this.#lists;
    const show = ({ id, name, code }: z.infer<typeof option>) => ({ id, name, code });
    const shown = Object.entries(lists).map(([list, entries]) => [list, entries.map(show)]);
    return {
      mainShippingMethods,
      ...Object.fromEntries(shown),
      returnReasons: this.returnReasons.map(show),
    };
  }

  /**
   * Returns whether an order of a type may leave in several parcels if it does not say so itself.
   */
  isDeliveredInParts(orderTypeId: number): boolean {
    return this.orderTypes.find(({ id }) => id === orderTypeId)?.partialDelivery ?? false;
  }

  /** Returns whether a return reason exists but is not available to the client. */
  isUnavailableReason(reasonId: number): boolean {
    return this.#lists.returnReasons.some(
      ({ id, available }) => id === reasonId && available === false,
    );
  }

  /**
   * Returns the code of a warehouse, which may be outside the fulfilment strategy; undefined if
   * there is none.
   */
  findWarehouseCode(warehouseId: number): string | undefined {
    return [...this.#lists.warehouses, warehouseOutsideStrategy].find(
      ({ id }) => id === warehouseId,
    )?.code;
  }

  /**
   * Returns the id of the older shipping method that a warehouse uses for a main shipping method.
   */
  findShippingMethodId(mainMethodId: number, warehouseCode: string): number {
    const methods =
      this.mainShippingMethods.find(({ id }) => id === mainMethodId)?.shippingMethods ?? [];
    return (methods.find(({ warehouse }) => warehouse === warehouseCode) ?? methods[0])?.id ?? 0;
  }

  /**
   * Returns the codes of the warehouses that offer a main shipping method; all if it names none.
   */
  findOfferingWarehouses(mainMethodId: number | null): readonly string[] {
    const methodId = mainMethodId ?? this.usualMethodId;
    const methods =
      this.mainShippingMethods.find(({ id }) => id === methodId)?.shippingMethods ?? [];
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
export const chosenListsSchema = listsSchema.extend({
  clients: z.record(z.string(), listsSchema).optional(),
});
export type ChosenLists = z.infer<typeof chosenListsSchema>;

/** Reads a file of service lists. Refuses lists that contradict each other. */
export function readListsFile(file: string, clients: readonly string[]): ChosenLists {
  const lists = parseLists(file);
  const { clients: ownLists = {}, ...shared } = lists;
  const problems = Object.entries({ '': {}, ...ownLists }).flatMap(([name, own]) => {
    if (name !== '' && !clients.includes(name))
      return [`clients.${name}: the sandbox has only the clients ${clients.join(', ')}`];
    const found = findContradictions(completeLists({ ...shared, ...own }));
    return name === '' ? found : found.map((problem) => `clients.${name}: ${problem}`);
  });
  if (problems.length > 0) throw new DocumentError(file, [...new Set(problems)]);
  return lists;
}

const maxBytes = 1 << 20;

/**
 * The error of a file that a user wrote. The message names the file and the member, and what is
 * wrong.
 */
export class DocumentError extends Error {
  constructor(file: string, problems: readonly string[], options?: ErrorOptions) {
    super(
      [`${file} cannot be used:`, ...problems].join(problems.length > 1 ? '\n  ' : ' '),
      options,
    );
    this.name = 'DocumentError';
  }
}

function parseLists(file: string): ChosenLists {
  const parsed = chosenListsSchema.safeParse(readYaml(file));
  if (parsed.success) return parsed.data;
  const problems = parsed.error.issues.slice(0, 10).map(({ path, message }) => {
    const place = path.map(String).join('.');
    return place === '' ? message : `${place}: ${message}`;
  });
  throw new DocumentError(file, problems);
}

function readYaml(file: string): unknown {
  try {
    const { size } = statSync(file);
    if (size > maxBytes) throw new Error(`it has ${size} bytes; the limit is ${maxBytes}`);
    // The limit is for aliases that multiply without bound.
    return parse(readFileSync(file, 'utf8'), { maxAliasCount: 100 });
  } catch (cause) {
    throw new DocumentError(file, [cause instanceof Error ? cause.message : String(cause)], {
      cause,
    });
  }
}
