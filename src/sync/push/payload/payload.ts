import { z } from 'zod';
import { isObject, type Json, parseExact, ShapeError } from '../../../core/json.ts';
import { findDocumentProblem } from './check-document.ts';
import { type AnyKind, type CheckContext, PayloadError } from './kind.ts';

/** Marks members with personal data. They are masked wherever a payload is shown. */
export const personal = { 'x-personal': true } as const;

/** An optional text. Null is the same as absent. */
export const optionalText = z.string().nullish();
/** An optional text with personal data. */
export const personalText = z.string().nullish().meta(personal);
/**
 * A required member that `WAREHOUSE_OPERATIONS_FILE` can make optional (config/optional-members.ts), so that a payload
 * may lack it.
 */
export const assumedRequired = <T>(schema: z.ZodType<T>): z.ZodType<T | null | undefined> => schema;
export const requiredText = z.string().min(1, 'must not be empty');
export const idNumber = z.int('must be a whole number').min(1, 'must be at least 1');
export const quantity = z
  .int('must be a whole number')
  .min(1, 'must be at least 1')
  .max(1_000_000, 'must be at most 1000000');
export const day = z.iso.date('must be a date in the form YYYY-MM-DD');
const noDecimal = 'must be a number or a decimal text such as "9.95"';
/** A number, or its digits as a text so that no digit is lost. */
export const decimal = z.union([z.number(), z.string().regex(/^-?(0|[1-9]\d{0,17})(\.\d{1,30})?$/, noDecimal)], {
  error: noDecimal,
});
/** An object with members that the ERP chooses. */
export const anyMembers = z.record(z.string(), z.unknown()).nullish().meta(personal);
/** Returns the schema of an object that may have these texts only. A null text is the same as absent. */
export const textsNamed = <const N extends string>(...names: readonly N[]) =>
  z
    .strictObject(Object.fromEntries(names.map((name) => [name, personalText])) as Record<N, typeof personalText>)
    .nullish();
/** Base64. White space is allowed, because encode() of Postgres breaks lines, and removed before sending. */
export const base64Text = z
  .string()
  .transform((text) => text.replaceAll(/\s+/g, ''))
  .pipe(z.base64('must be base64'))
  .meta({ description: 'base64; white space is allowed' });
/** A pdf document in base64. */
export const documentContent = base64Text
  .refine((text) => text !== '', 'must not be empty')
  .meta({ ...personal, description: 'pdf document, base64; white space is allowed' });

/** Returns a decimal as a JSON number that keeps all digits of the payload. */
export function asNumber(value: number | string): Json {
  return typeof value === 'number' ? value : JSON.rawJSON(value);
}

/** Returns the members that are neither absent nor null. */
export function pickGiven<T extends Record<string, unknown>>(members: T): { [K in keyof T]?: NonNullable<T[K]> } {
  const entries = Object.entries(members).filter(([, value]) => value !== undefined && value !== null);
  return Object.fromEntries(entries) as { [K in keyof T]?: NonNullable<T[K]> };
}

/**
 * Reads a payload with its kind's schema, without other checks.
 * @throws PayloadError with every problem at once
 */
export function readPayload(kind: AnyKind, payload: string): unknown {
  const { problems, read } = validate(kind, normalizeNumbers(parsePayload(payload)));
  if (problems.length > 0) throw new PayloadError(problems);
  return read;
}

/**
 * Reads a payload with its kind's schema, and runs the kind's further checks.
 * @throws PayloadError with every problem at once
 */
export async function checkPayload(
  kind: AnyKind,
  { payload, reference }: { readonly payload: string; readonly reference: string },
  context: CheckContext,
): Promise<unknown> {
  const value = normalizeNumbers(parsePayload(payload));
  const { problems, read } = validate(kind, value);
  const further = isObject(value) ? [...((await kind.check?.(value, reference, context)) ?? [])] : [];
  if (reference.trim() === '') further.unshift('reference: must not be empty');
  if (problems.length + further.length > 0) throw new PayloadError([...problems, ...further]);
  return read;
}

function parsePayload(payload: string): Json {
  try {
    return parseExact(payload);
  } catch (error) {
    // Other errors cannot occur: the text comes from a JSON column.
    if (!(error instanceof ShapeError)) throw error;
    throw new PayloadError([`payload: ${error.message}`]);
  }
}

/** Reads a value with the kind's schema. Returns the problems in words, or the value read. */
function validate(kind: AnyKind, value: Json): { problems: string[]; read: unknown } {
  const result = kind.schema.safeParse(value, { reportInput: true });
  if (result.success) return { problems: [], read: result.data };
  return { problems: result.error.issues.flatMap((issue) => toProblems(issue, kind)), read: undefined };
}

/** Returns true if a member is neither absent nor null. */
export const isGiven = (value: { readonly [member: string]: Json }, member: string): boolean =>
  value[member] !== undefined && value[member] !== null;

/**
 * Returns the problem of a document that cannot be printed. Returns none if it is not base64: the schema reports that.
 */
export async function findDocumentProblems(
  path: string,
  content: Json | undefined,
  signal: AbortSignal,
): Promise<string[]> {
  const read = documentContent.safeParse(content);
  const problem = read.success ? await findDocumentProblem(read.data, signal) : null;
  return problem === null ? [] : [`${path}: ${problem}`];
}

/** Members that are sent unchanged. */
const passedThrough: ReadonlySet<string> = new Set(['pickUpPoint', 'metadata']);

/**
 * Turns numbers that would lose digits into texts: a decimal is then sent with all its digits, and the schema refuses a
 * whole number that is too large.
 */
function normalizeNumbers(value: Json): Json {
  if (Array.isArray(value)) return value.map(normalizeNumbers);
  if (JSON.isRawJSON(value)) return Number.isSafeInteger(Number(value.rawJSON)) ? Number(value.rawJSON) : value.rawJSON;
  if (!isObject(value)) return value;
  const entries = Object.entries(value);
  return Object.fromEntries(
    entries.map(([name, member]) => [name, passedThrough.has(name) ? member : normalizeNumbers(member)]),
  );
}

function toProblems(issue: z.core.$ZodIssue, kind: AnyKind): string[] {
  const path = formatPath(issue.path);
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.map((key) => {
      const isNamed = issue.path.length === 0 && Object.hasOwn(kind.refused ?? {}, key);
      const reason = (isNamed && kind.refused?.[key]) || 'is not a known member and must be removed';
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

function formatPath(path: readonly PropertyKey[]): string {
  return path.reduce<string>(
    (text, part) =>
      typeof part === 'number' ? `${text}[${part}]` : text === '' ? String(part) : `${text}.${String(part)}`,
    '',
  );
}

/** Returns the JSON Schema of a kind's payload, as `fulfilment.outbox_schema(kind)` shows it. */
export function toPayloadSchema(kind: AnyKind): Json {
  const schema = z.toJSONSchema(kind.schema, { io: 'input', unrepresentable: 'any' });
  return { title: kind.name, ...(schema as { [member: string]: Json }) };
}
