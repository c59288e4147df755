import { z } from 'zod';
import { isObject, type Json, parseExact, ShapeError } from '../../../core/json.ts';
import { documentContent } from '../../../payloads/members.ts';
import { findDocumentProblem } from './check-document.ts';
import { type AnyKind, type CheckContext, type JsonObject, PayloadError } from './kind.ts';

/** Maximum number of entries of an array, and of members of an object. One with more is not checked any further. */
const maxEntries = 5_000;

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
  const { problems, read } = readMembers(kind, parsePayload(payload));
  if (problems.length > 0) throw new PayloadError(problems);
  return read;
}

/**
 * Reads a payload with all checks of its kind.
 * @throws PayloadError with every problem at once
 */
export async function checkPayload(
  kind: AnyKind,
  { payload, reference }: { readonly payload: string; readonly reference: string },
  context: CheckContext,
): Promise<unknown> {
  const { problems, read, value } = readMembers(kind, parsePayload(payload));
  const further = isObject(value) ? [...((await kind.check?.(value, reference, context)) ?? [])] : [];
  if (reference.trim() === '') further.unshift('reference: must not be empty');
  if (problems.length + further.length > 0) throw new PayloadError([...problems, ...further]);
  return read;
}

/** Reads a value with the kind's schema. Returns the problems in words, or the value read. */
function readMembers(kind: AnyKind, given: Json): { problems: string[]; read: unknown; value: Json } {
  const crowded = findCrowded(given, 'payload');
  if (crowded !== null) return { problems: [crowded], read: undefined, value: null };
  const value = normalizeNumbers(given);
  const result = kind.schema.safeParse(value, { reportInput: true });
  if (result.success) return { problems: [], read: result.data, value };
  const problems = result.error.issues.flatMap((issue) => describeIssue(issue, kind.refused ?? {}));
  return { problems: problems.map(({ path, problem }) => `${path}: ${problem}`), read: undefined, value };
}

/** Returns the problem of the first array or object with too many entries; null if there is none. */
function findCrowded(value: Json, path: string): string | null {
  if (!Array.isArray(value) && !isObject(value)) return null;
  const entries = Object.entries(value);
  if (entries.length > maxEntries) return `${path}: has ${entries.length} entries; at most ${maxEntries} are taken`;
  for (const [name, member] of entries) {
    const place = Array.isArray(value) ? `${path}[${name}]` : path === 'payload' ? name : `${path}.${name}`;
    const problem = findCrowded(member, place);
    if (problem !== null) return problem;
  }
  return null;
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

/** Returns the problem of a document that cannot be printed; none if it is not base64: the schema reports that. */
export async function findDocumentProblems(
  path: string,
  content: Json | undefined,
  signal: AbortSignal,
): Promise<string[]> {
  const read = documentContent.safeParse(content);
  const problem = read.success ? await findDocumentProblem(read.data, signal) : null;
  return problem === null ? [] : [`${path}: ${problem}`];
}

/**
 * Returns the JSON Schema of a kind's payload, as `fulfilment.outbox_schema(kind)` shows it. `x-refused` has the reasons why
 * certain members are refused.
 */
export function toPayloadSchema(kind: AnyKind): JsonObject {
  const schema = z.toJSONSchema(kind.schema, { io: 'input', unrepresentable: 'any' });
  const refused = kind.refused === undefined ? {} : { 'x-refused': kind.refused };
  return { title: kind.name, ...(schema as { [member: string]: Json }), ...refused };
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

/**
 * Describes what zod found wrong: the path of each member, such as `items[0].quantity`, and its problem. The schema must
 * have read the value with `reportInput`.
 * @param refused reasons why the schema does not have certain members, by path without places in lists
 */
export function describeIssue(
  issue: z.core.$ZodIssue,
  refused: Readonly<Record<string, string>> = {},
): { readonly path: string; readonly problem: string }[] {
  const path = formatPath(issue.path);
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.map((key) => {
      const name = [...issue.path.filter((part) => typeof part === 'string'), key].join('.');
      const problem = (Object.hasOwn(refused, name) && refused[name]) || 'is not a known member and must be removed';
      return { path: `${path === '' ? '' : `${path}.`}${key}`, problem };
    });
  }
  const place = path === '' ? 'payload' : path;
  if (issue.code === 'invalid_type')
    return [
      { path: place, problem: issue.input === undefined ? 'is missing' : `must be ${withArticle(issue.expected)}` },
    ];
  return [{ path: place, problem: `${issue.message.charAt(0).toLowerCase()}${issue.message.slice(1)}` }];
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

/** Returns true if a member is neither absent nor null. */
export const isGiven = (value: JsonObject, member: string): boolean =>
  value[member] !== undefined && value[member] !== null;
