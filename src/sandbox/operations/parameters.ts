import { z } from 'zod';
import { badParameter } from '../refusal.ts';

/**
 * Schemas of query parameters by name. An array schema gets the values between the commas, any other the whole text.
 */
export type Parameters = Readonly<Record<string, z.ZodType>>;
export type ParameterValues<P extends Parameters> = { readonly [Name in keyof P]: z.output<P[Name]> | undefined };

const maxNumberLength = 50;

export const wholeNumber = z
  .string()
  .regex(/^\d{1,15}$/, 'must hold whole numbers')
  .transform(Number)
  .pipe(z.int());
/** Returns the schema of a list that is not empty and has no value twice. */
export const uniqueList = <T extends z.ZodType>(element: T) =>
  z
    .array(element)
    .min(1)
    .refine((values) => new Set(values).size === values.length, 'must hold each value once')
    .meta({ uniqueItems: true });
/** Returns the schema of a list that is not empty. Values may occur twice. */
const plainList = <T extends z.ZodType>(element: T) => z.array(element).min(1);
export const texts = plainList(z.string().min(1, 'must not be empty'));
/** A list that has no value twice. The texts in it may be empty. */
export const uniqueTexts = uniqueList(z.string());
/** Order numbers of at most 50 characters each (docs/interface.md, 5.1 Values). */
export const orderNumbers = uniqueList(
  z
    .string()
    .min(1, 'must not be empty')
    .max(maxNumberLength, `must hold values of at most ${maxNumberLength} characters`),
);
export const ids = plainList(wholeNumber);
/** A date of a filter. Both bounds are exclusive (docs/interface.md, 2.5 Filters). */
export const day = z.iso.date('must be a date in the form YYYY-MM-DD');
export const flag = z
  .enum(['true', 'false'])
  .transform((text) => text === 'true')
  .pipe(z.boolean());

const numberBetween = (min: number, max: number) =>
  z
    .string()
    .regex(/^\d{1,16}$/, 'must be a whole number')
    .transform(Number)
    .pipe(z.int().min(min, `must be from ${min} to ${max}`).max(max, `must be from ${min} to ${max}`));
/** The parameters of paged lists (docs/interface.md, 2.4 Paging). */
export const paging = {
  'page[cursor]': numberBetween(0, Number.MAX_SAFE_INTEGER).meta({ default: 0 }),
  'page[size]': numberBetween(1, 100).meta({ default: 100 }),
} as const;
export const include = <Name extends string>(...names: readonly [Name, ...Name[]]) => uniqueList(z.enum(names));

/**
 * Parses a raw query string. Commas inside a value are percent-encoded; commas between values are not.
 * @throws Refusal that names the parameter, if one is unknown, given twice, missing or wrong
 */
export function readQuery<P extends Parameters>(
  rawQuery: string,
  parameters: P,
  required: readonly string[],
): ParameterValues<P> {
  const values: Record<string, unknown> = {};
  for (const part of rawQuery.split('&').filter(Boolean)) {
    const [rawName = '', ...rest] = part.split('=');
    const name = decodeText(rawName);
    if (Object.hasOwn(values, name)) throw badParameter(name, 'is given twice');
    const schema = Object.hasOwn(parameters, name) ? parameters[name] : undefined;
    if (schema === undefined) throw badParameter(name, 'is not a parameter of this operation');
    const given = rest.join('=').split(',').map(decodeText);
    const read = schema.safeParse(schema instanceof z.ZodArray ? given : given.join(','));
    if (!read.success) throw badParameter(name, read.error.issues[0]?.message ?? 'is wrong');
    values[name] = read.data;
  }
  const missing = required.find((name) => !Object.hasOwn(values, name));
  if (missing !== undefined) throw badParameter(missing, 'is required');
  return values as ParameterValues<P>;
}

function decodeText(text: string): string {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch (error) {
    if (error instanceof URIError) throw badParameter(text, 'is not percent-encoded UTF-8');
    throw error;
  }
}
