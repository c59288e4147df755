/** The schemas and parts of requests. */

import { z } from 'zod';
import { ruleBroken } from '../refusal.ts';
import type { Texts } from '../store/model.ts';
import type { Zone } from '../zone.ts';

/** An id that the client chooses to link the resources of one request. */
export const provisionalId = z.union([z.int(), z.string().min(1)]);
/** A text, null, or absent. */
export const textIn = z.string().nullish();
/** A date of a body or a filter. */
export const dateIn = z.iso.date('must be a date in the form YYYY-MM-DD');
export const countryCodeIn = z
  .string()
  .regex(/^[A-Z]{2}$/, 'must be a country code of two letters');
export const quantityIn = z
  .int('must be a whole number')
  .min(1, 'must be at least 1')
  .max(1_000_000);

/** A whole number, or a text with its digits: in a form, or as the id of a resource. */
export const integerIn = z
  .union([z.int(), z.string().regex(/^-?\d{1,15}$/, 'must be a whole number')])
  .transform(Number)
  .pipe(z.int());
export const decimal = z.union([
  z.number(),
  z.string().regex(/^-?\d{1,15}(\.\d{1,10})?$/, 'must be a decimal'),
]);
/** A decimal that is kept as a number. */
export const numberIn = decimal.transform(Number);

/** A date or a date-time. */
export const dayIn = z
  .union(
    [z.iso.date(), z.iso.datetime({ local: true, offset: true }).meta({ format: 'date-time' })],
    'must be a date or a date-time',
  )
  .nullish();

/** Returns the day of a date or date-time: the local day at the warehouses, if it has a zone. */
export function toWarehouseDay(zone: Zone, text: string | null | undefined): string | null {
  if (!text) return null;
  return /T.*(Z|[+-]\d{2}:?\d{2})$/i.test(text) ? zone.day(Date.parse(text)) : text.slice(0, 10);
}

export const linkTo = (type: string) =>
  z.strictObject({ data: z.strictObject({ id: integerIn, type: z.literal(type) }) });
export const linksTo = (type: string) =>
  z.strictObject({
    data: z.array(z.strictObject({ id: provisionalId.optional(), type: z.literal(type) })),
  });

/** Returns the schema of an object with optional texts under the given names. */
export const namedTexts = (...names: readonly string[]) =>
  z.strictObject(Object.fromEntries(names.map((name) => [name, textIn]))).nullish();

const maxDepth = 20;
/** An object whose members the client chooses. */
export const clientMembers = z
  .record(z.string(), z.unknown())
  .refine((members) => isShallow(members, maxDepth), 'must not be nested deeper than 20 levels');

function isShallow(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return true;
  return levels > 0 && Object.values(value).every((member) => isShallow(member, levels - 1));
}

/** Returns the given texts by name. Leaves out members that are null or absent. */
export function keepGivenTexts(given: object | null | undefined): Texts {
  const entries = Object.entries(given ?? {}).filter(([, text]) => typeof text === 'string');
  return Object.fromEntries(entries);
}

/**
 * Returns the named texts of an object, null for empty or absent ones: both erase the value
 * (docs/interface.md, 7.1 Fields).
 */
export const readTexts = <Name extends string>(
  given: { readonly [Key in Name]?: string | null | undefined },
  names: readonly Name[],
) =>
  Object.fromEntries(names.map((name) => [name, given[name] || null])) as Record<
    Name,
    string | null
  >;

/**
 * Returns the schema of a resource in a request. Its id is one that the client chose, if it has
 * one.
 */
export const resourceIn = <Type extends string, Members extends z.ZodRawShape>(
  type: Type,
  members: Members,
) => z.strictObject({ type: z.literal(type), id: provisionalId.optional(), ...members });

/**
 * Returns the schema of a document with included resources. These are inside `data` or at the top
 * of the document.
 */
export function documentIn<
  Type extends string,
  Members extends z.ZodRawShape,
  Part extends z.ZodType,
>(type: Type, members: Members, part: Part) {
  const included = z.array(part).optional();
  return z.strictObject({ data: resourceIn(type, { ...members, included }), included });
}

interface IncludingBody<T> {
  readonly data: { readonly included?: readonly T[] | undefined };
  readonly included?: readonly T[] | undefined;
}

/** Returns the included resources of a document. */
export const readIncluded = <T>({ data, included = [] }: IncludingBody<T>): readonly T[] => [
  ...(data.included ?? []),
  ...included,
];

/** Returns the included resources of one type. */
export const selectIncluded = <T extends { readonly type: string }, Type extends T['type']>(
  body: IncludingBody<T>,
  type: Type,
) =>
  readIncluded(body).filter(
    (part): part is Extract<T, { readonly type: Type }> => part.type === type,
  );

/** Refuses a body that names another resource than the path. */
export function assertSameId(id: number | undefined, pathId: number): void {
  if (id !== undefined && id !== pathId)
    throw ruleBroken(`The path names ${pathId}, the body ${id}`);
}
