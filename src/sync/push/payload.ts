import { z } from 'zod';
import { isObject, type Json, parseExact } from '../../core/json.ts';
import { type AnyKind, PayloadError } from './kind.ts';

/** Marks members that hold personal data: they are masked wherever a payload is shown. */
export const personal = { 'x-personal': true } as const;

/** A text that may be left out; null is the same as leaving it out. */
export const optionalText = z.string().nullish();
export const personalText = z.string().nullish().meta(personal);
export const requiredText = z.string().min(1, 'must not be empty');
export const idNumber = z.int('must be a whole number').min(1, 'must be an id');
export const quantity = z.int('must be a whole number').min(1, 'must be at least 1').max(1_000_000);
export const day = z.iso.date('must be a date in the form YYYY-MM-DD');
/** A number, or its digits in a text, so that none of them is lost on the way. */
export const decimal = z.union([z.number(), z.string().regex(/^-?(0|[1-9]\d{0,17})(\.\d{1,10})?$/)], {
  error: 'must be a number or a decimal text such as "9.95"',
});
/** Members of the ERP's choice. */
export const anyMembers = z.record(z.string(), z.unknown()).nullish().meta(personal);
/** Texts under these names only; null is the same as leaving one out. */
export const textsNamed = <const N extends string>(...names: readonly N[]) =>
  z
    .strictObject(Object.fromEntries(names.map((name) => [name, personalText])) as Record<N, typeof personalText>)
    .nullish();
/** A pdf document, base64. */
export const documentContent = z.base64('must be base64').min(1, 'must not be empty').meta(personal);

/** A decimal as it is sent: a number with the digits it was written with. */
export function asNumber(value: number | string): Json {
  return typeof value === 'number' ? value : JSON.rawJSON(value);
}

/** The members that were given: neither absent nor null. */
export function given<T extends Record<string, unknown>>(members: T): { [K in keyof T]?: NonNullable<T[K]> } {
  const entries = Object.entries(members).filter(([, value]) => value !== undefined && value !== null);
  return Object.fromEntries(entries) as { [K in keyof T]?: NonNullable<T[K]> };
}

/**
 * Reads a payload by its kind's schema and checks.
 * @throws PayloadError with every problem at once
 */
export async function readPayload(kind: AnyKind, payload: string, reference: string): Promise<unknown> {
  const value = plain(parseExact(payload));
  const read = kind.schema.safeParse(value, { reportInput: true });
  if (!read.success) throw new PayloadError(read.error.issues.flatMap((issue) => problemsOf(issue, kind)));
  const problems = (await kind.check?.(read.data, reference)) ?? [];
  if (problems.length > 0) throw new PayloadError(problems);
  return read.data;
}

/** Numbers that lose digits as texts: a whole one is none then, and a decimal is sent as it stands. */
function plain(value: Json): Json {
  if (Array.isArray(value)) return value.map(plain);
  if (JSON.isRawJSON(value)) return Number.isSafeInteger(Number(value.rawJSON)) ? Number(value.rawJSON) : value.rawJSON;
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, plain(member)]));
}

function problemsOf(issue: z.core.$ZodIssue, kind: AnyKind): string[] {
  const path = pathOf(issue.path);
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.map((key) => {
      const reason = (issue.path.length === 0 && kind.refused?.[key]) || 'is not known here';
      return `${path === '' ? '' : `${path}.`}${key}: ${reason}`;
    });
  }
  const name = path === '' ? 'payload' : path;
  if (issue.code === 'invalid_type')
    return [`${name}: ${issue.input === undefined ? 'is missing' : `must be ${withArticle(issue.expected)}`}`];
  return [`${name}: ${issue.message.charAt(0).toLowerCase()}${issue.message.slice(1)}`];
}

const withArticle = (type: string) =>
  type === 'int' ? 'a whole number' : /^[aeio]/.test(type) ? `an ${type}` : `a ${type}`;

function pathOf(path: readonly PropertyKey[]): string {
  return path.reduce<string>(
    (text, part) =>
      typeof part === 'number' ? `${text}[${part}]` : text === '' ? String(part) : `${text}.${String(part)}`,
    '',
  );
}

/** The JSON Schema of a kind's payload, as `fulfilment.outbox_schema(kind)` gives it. */
export function payloadSchema(kind: AnyKind): Json {
  const schema = z.toJSONSchema(kind.schema, { io: 'input', unrepresentable: 'any' });
  return { title: kind.name, ...(schema as { [member: string]: Json }) };
}
