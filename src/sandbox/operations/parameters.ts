import { z } from 'zod';
import type { Oddity } from '../findings.ts';
import { readBoolean } from '../normalize-body.ts';
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

/** How a query is compared with the parameters of its operation. */
export interface QueryReading {
  /** Whether unknown parameters and other spellings are refused. */
  readonly isStrict: boolean;
  /** Whether names are compared without their case, and booleans have other spellings: in the older generations. */
  readonly isOlder: boolean;
  /** Whether a list of texts is decoded before it is split. */
  readonly decodesBeforeSplit: boolean;
  readonly record: (oddity: Oddity) => void;
}

/**
 * Parses a raw query string, and records what the parameters do not show. Commas between texts are not percent-encoded,
 * so that an encoded comma belongs to its text. In lists of names and ids, an encoded comma separates values.
 * @throws Refusal that names the parameter, if one is given twice, missing, wrong, or unknown in strict mode
 */
export function readQuery<P extends Parameters>(
  rawQuery: string,
  parameters: P,
  required: readonly string[],
  reading: QueryReading,
): ParameterValues<P> {
  const values: Record<string, unknown> = {};
  for (const part of rawQuery.split('&').filter(Boolean)) {
    const [rawName = '', ...rest] = part.split('=');
    const sent = decodeText(rawName);
    const name = findName(sent, parameters, reading);
    if (name === null) continue;
    if (Object.hasOwn(values, name)) throw badParameter(name, 'is given twice');
    const schema = parameters[name] ?? z.never();
    const read = schema.safeParse(readValue(name, rest.join('='), schema, reading));
    if (!read.success) throw badParameter(name, read.error.issues[0]?.message ?? 'is wrong');
    values[name] = read.data;
  }
  const missing = required.find((name) => !Object.hasOwn(values, name));
  if (missing !== undefined) throw badParameter(missing, 'is required');
  return values as ParameterValues<P>;
}

/**
 * Returns the name of the parameter that a client means. Returns null if there is none.
 * @throws Refusal in strict mode, if there is none with exactly this name
 */
function findName(sent: string, parameters: Parameters, { isStrict, isOlder, record }: QueryReading): string | null {
  if (Object.hasOwn(parameters, sent)) return sent;
  const names = isOlder ? Object.keys(parameters) : [];
  const meant = names.find((name) => name.toLowerCase() === sent.toLowerCase());
  const oddity = { member: sent, shape: 'parameter' };
  record(meant === undefined ? { ...oddity, code: 'unknown_parameter' } : { ...oddity, code: 'odd_case', meant });
  if (isStrict) throw badParameter(sent, 'is not a parameter of this operation');
  return meant ?? null;
}

function readValue(
  name: string,
  raw: string,
  schema: z.ZodType,
  { isStrict, isOlder, decodesBeforeSplit, record }: QueryReading,
): string | string[] {
  if (!(schema instanceof z.ZodArray)) {
    const text = decodeText(raw);
    const meant = schema === flag && isOlder ? readBoolean(text) : undefined;
    if (meant === undefined || text === String(meant)) return text;
    record({ code: 'wrong_type', member: name, shape: 'text', meant: 'true or false' });
    return isStrict ? text : String(meant);
  }
  const holdsTexts = schema.element instanceof z.ZodString;
  if (/%2c/i.test(raw)) {
    const meant = holdsTexts
      ? 'The encoded comma was taken as part of the value.'
      : 'The encoded comma was taken as a separator; the service may refuse it.';
    record({ code: 'encoded_comma', member: name, shape: 'list', meant });
  }
  return holdsTexts && !decodesBeforeSplit ? raw.split(',').map(decodeText) : decodeText(raw).split(',');
}

function decodeText(text: string): string {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch (error) {
    if (error instanceof URIError) throw badParameter(text, 'is not percent-encoded UTF-8');
    throw error;
  }
}
