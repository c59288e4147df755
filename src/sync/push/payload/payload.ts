import { z } from 'zod';
import { isObject, type Json, parseExact, ShapeError } from '../../../core/json.ts';
import { documentProblem } from './check-document.ts';
import { type AnyKind, type CheckContext, PayloadError } from './kind.ts';

/** Marks members that hold personal data: they are masked wherever a payload is shown. */
export const personal = { 'x-personal': true } as const;

/** A text that may be left out; null is the same as leaving it out. */
export const optionalText = z.string().nullish();
export const personalText = z.string().nullish().meta(personal);
export const requiredText = z.string().min(1, 'must not be empty');
export const idNumber = z.int('must be a whole number').min(1, 'must be an id');
export const quantity = z
  .int('must be a whole number')
  .min(1, 'must be at least 1')
  .max(1_000_000, 'must be at most 1000000');
export const day = z.iso.date('must be a date in the form YYYY-MM-DD');
/** A number, or its digits in a text, so that none of them is lost on the way. */
const noDecimal = 'must be a number or a decimal text such as "9.95"';
export const decimal = z.union([z.number(), z.string().regex(/^-?(0|[1-9]\d{0,17})(\.\d{1,30})?$/, noDecimal)], {
  error: noDecimal,
});
/** Members of the ERP's choice. */
export const anyMembers = z.record(z.string(), z.unknown()).nullish().meta(personal);
/** Texts under these names only; null is the same as leaving one out. */
export const textsNamed = <const N extends string>(...names: readonly N[]) =>
  z
    .strictObject(Object.fromEntries(names.map((name) => [name, personalText])) as Record<N, typeof personalText>)
    .nullish();
/** Base64, with white space where the ERP put it: encode() of Postgres breaks lines. It is sent without. */
export const base64Text = z
  .string()
  .transform((text) => text.replaceAll(/\s+/g, ''))
  .pipe(z.base64('must be base64'))
  .meta({ description: 'base64; white space is allowed' });
/** A pdf document, base64. */
export const documentContent = base64Text
  .refine((text) => text !== '', 'must not be empty')
  .meta({ ...personal, description: 'pdf document, base64; white space is allowed' });

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
 * Reads a payload by its kind's schema alone.
 * @throws PayloadError with every problem at once
 */
export function readPayload(kind: AnyKind, payload: string): unknown {
  const { problems, read } = judge(kind, plain(parsePayload(payload)));
  if (problems.length > 0) throw new PayloadError(problems);
  return read;
}

/**
 * Reads a payload by its kind's schema, and checks what the schema cannot see.
 * @throws PayloadError with every problem at once
 */
export async function checkPayload(
  kind: AnyKind,
  { payload, reference }: { readonly payload: string; readonly reference: string },
  context: CheckContext,
): Promise<unknown> {
  const value = plain(parsePayload(payload));
  const { problems, read } = judge(kind, value);
  const further = isObject(value) ? [...((await kind.check?.(value, reference, context)) ?? [])] : [];
  if (reference.trim() === '') further.unshift('reference: must not be empty');
  if (problems.length + further.length > 0) throw new PayloadError([...problems, ...further]);
  return read;
}

function parsePayload(payload: string): Json {
  try {
    return parseExact(payload);
  } catch (error) {
    // It is JSON, for it comes from a column of that type.
    if (!(error instanceof ShapeError)) throw error;
    throw new PayloadError([`payload: ${error.message}`]);
  }
}

function judge(kind: AnyKind, value: Json): { problems: string[]; read: unknown } {
  const result = kind.schema.safeParse(value, { reportInput: true });
  if (result.success) return { problems: [], read: result.data };
  return { problems: result.error.issues.flatMap((issue) => problemsOf(issue, kind)), read: undefined };
}

/** Whether a member was given: neither absent nor null. */
export const has = (value: { readonly [member: string]: Json }, member: string): boolean =>
  value[member] !== undefined && value[member] !== null;

/** The problem of a document that cannot be printed; none where it is no document at all, which the schema says. */
export async function documentProblems(
  path: string,
  content: Json | undefined,
  signal: AbortSignal,
): Promise<string[]> {
  const read = documentContent.safeParse(content);
  const problem = read.success ? await documentProblem(read.data, signal) : null;
  return problem === null ? [] : [`${path}: ${problem}`];
}

/** Members that are sent as they are, whatever they hold. */
const passedThrough: ReadonlySet<string> = new Set(['pickUpPoint', 'metadata']);

/** Numbers that lose digits as texts: a whole one is none then, and a decimal is sent as it stands. */
function plain(value: Json): Json {
  if (Array.isArray(value)) return value.map(plain);
  if (JSON.isRawJSON(value)) return Number.isSafeInteger(Number(value.rawJSON)) ? Number(value.rawJSON) : value.rawJSON;
  if (!isObject(value)) return value;
  const entries = Object.entries(value);
  return Object.fromEntries(entries.map(([name, member]) => [name, passedThrough.has(name) ? member : plain(member)]));
}

function problemsOf(issue: z.core.$ZodIssue, kind: AnyKind): string[] {
  const path = pathOf(issue.path);
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.map((key) => {
      const isNamed = issue.path.length === 0 && Object.hasOwn(kind.refused ?? {}, key);
      const reason = (isNamed && kind.refused?.[key]) || 'is not known here';
      return `${path === '' ? '' : `${path}.`}${key}: ${reason}`;
    });
  }
  const name = path === '' ? 'payload' : path;
  if (issue.code === 'invalid_type')
    return [`${name}: ${issue.input === undefined ? 'is missing' : `must be ${withArticle(issue.expected)}`}`];
  return [`${name}: ${issue.message.charAt(0).toLowerCase()}${issue.message.slice(1)}`];
}

const withArticle = (type: string) =>
  type === 'record'
    ? 'an object'
    : type === 'int'
      ? 'a whole number'
      : /^[aeio]/.test(type)
        ? `an ${type}`
        : `a ${type}`;

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
