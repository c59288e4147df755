import { z } from 'zod';
import { badParameter } from '../refusal.ts';

/** Schemas of query parameters by name. A list is given its values as they stand between commas, a scalar its text. */
export type Parameters = Readonly<Record<string, z.ZodType>>;
export type Values<P extends Parameters> = { readonly [Name in keyof P]: z.output<P[Name]> | undefined };

const maxNumberLength = 50;

export const wholeNumber = z
  .string()
  .regex(/^\d{1,15}$/, 'must hold whole numbers')
  .transform(Number)
  .pipe(z.int());
/** A non-empty list with each value once. */
export const listOf = <T extends z.ZodType>(element: T) =>
  z
    .array(element)
    .min(1)
    .refine((values) => new Set(values).size === values.length, 'must hold each value once')
    .meta({ uniqueItems: true });
/** A list of which only that is said. */
const plainListOf = <T extends z.ZodType>(element: T) => z.array(element).min(1);
export const texts = plainListOf(z.string().min(1, 'must not be empty'));
/** A list with each value once, which may be empty. */
export const uniqueTexts = listOf(z.string());
/** interface.md, Limits: at most 50 characters each. */
export const numbers = listOf(
  z
    .string()
    .min(1, 'must not be empty')
    .max(maxNumberLength, `must hold values of at most ${maxNumberLength} characters`),
);
export const ids = plainListOf(wholeNumber);
/** A day, both bounds of a filter being exclusive (interface.md, Pagination). */
export const day = z.iso.date('must be a date in the form YYYY-MM-DD');
export const flag = z
  .enum(['true', 'false'])
  .transform((text) => text === 'true')
  .pipe(z.boolean());

const between = (min: number, max: number) =>
  z
    .string()
    .regex(/^\d{1,16}$/, 'must be a whole number')
    .transform(Number)
    .pipe(z.int().min(min, `must be from ${min} to ${max}`).max(max, `must be from ${min} to ${max}`));
/** interface.md, Pagination. */
export const paging = {
  'page[cursor]': between(0, Number.MAX_SAFE_INTEGER).meta({ default: 0 }),
  'page[size]': between(1, 100).meta({ default: 100 }),
} as const;
export const include = <Name extends string>(...names: readonly [Name, ...Name[]]) => listOf(z.enum(names));

/**
 * Reads a raw query string; commas inside a value are told from those between values by their encoding.
 * @throws Refusal that names the parameter where one is unknown, given twice, missing, or wrong
 */
export function readQuery<P extends Parameters>(
  rawQuery: string,
  parameters: P,
  required: readonly string[],
): Values<P> {
  const values: Record<string, unknown> = {};
  for (const part of rawQuery.split('&').filter(Boolean)) {
    const [rawName = '', ...rest] = part.split('=');
    const name = decode(rawName);
    if (Object.hasOwn(values, name)) throw badParameter(name, 'is given twice');
    const schema = Object.hasOwn(parameters, name) ? parameters[name] : undefined;
    if (schema === undefined) throw badParameter(name, 'is not a parameter of this operation');
    const given = rest.join('=').split(',').map(decode);
    const read = schema.safeParse(schema instanceof z.ZodArray ? given : given.join(','));
    if (!read.success) throw badParameter(name, read.error.issues[0]?.message ?? 'is wrong');
    values[name] = read.data;
  }
  const missing = required.find((name) => !Object.hasOwn(values, name));
  if (missing !== undefined) throw badParameter(missing, 'is required');
  return values as Values<P>;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch (error) {
    if (error instanceof URIError) throw badParameter(text, 'is not percent-encoded UTF-8');
    throw error;
  }
}
