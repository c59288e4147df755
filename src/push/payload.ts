import { setImmediate as nextTurn } from 'node:timers/promises';
import { z } from 'zod';
import { isObject, type Json, parseExact, ShapeError } from '../core/json.ts';
import { quote } from '../core/quote.ts';
import { findDocumentProblem } from './check-document.ts';
import {
  type AnyKind,
  type CheckContext,
  type JsonObject,
  maxProblems,
  PayloadError,
} from './kind.ts';
import { documentContent } from './payloads/members.ts';

/**
 * Maximum number of entries of an array, and of members of an object. One with more is not checked
 * any further.
 */
const maxEntries = 5_000;
/**
 * Maximum number of values in a payload, and in all payloads of a request: an order of 5,000 lines
 * with 14 members each, and more. Each step of a check takes at most some 50 ms then, so that
 * leases are kept.
 */
export const maxPayloadValues = 100_000;
/** Number of characters from which a check lets other work run between its steps. */
const longText = 100_000;
/** Number of entries of a list that are checked before the problems are counted. */
const pieceLength = 100;

/** Returns a decimal as a JSON number that keeps all digits of the payload. */
export function asNumber(value: number | string): Json {
  return typeof value === 'number' ? value : JSON.rawJSON(value);
}

/** Returns the members that are neither absent nor null. */
export function pickGiven<T extends Record<string, unknown>>(
  members: T,
): { [K in keyof T]?: NonNullable<T[K]> } {
  const entries = Object.entries(members).filter(
    ([, value]) => value !== undefined && value !== null,
  );
  return Object.fromEntries(entries) as { [K in keyof T]?: NonNullable<T[K]> };
}

/**
 * Reads a payload with its kind's schema, without other checks.
 * @throws PayloadError with every problem at once
 */
export function readPayload(kind: AnyKind, payload: string): unknown {
  const { problems, read } = readMembers(kind, prepareValue(parsePayload(payload)));
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
  return checkValue(
    kind,
    { value: parsePayload(payload), length: payload.length, reference },
    context,
  );
}

/** A parsed payload, and the length of its text. */
interface ParsedPayload {
  readonly value: Json;
  readonly length: number;
  readonly reference: string;
}

/**
 * Checks a parsed payload as `checkPayload` does.
 * @throws PayloadError with every problem at once
 */
export async function checkValue(
  kind: AnyKind,
  { value: given, length, reference }: ParsedPayload,
  context: CheckContext,
): Promise<unknown> {
  await giveTurn(length);
  const value = prepareValue(given);
  await giveTurn(length);
  const { problems, read } = readMembers(kind, value);
  await giveTurn(length);
  const further = isObject(value)
    ? [...((await kind.check?.(value, reference, context)) ?? [])]
    : [];
  if (reference.trim() === '') further.unshift('reference: must not be empty');
  if (problems.length + further.length > 0) throw new PayloadError([...problems, ...further]);
  return read;
}

/**
 * Lets other work run, such as the renewal of leases, after a step with a long payload.
 * @param length number of characters of the payload
 */
export const giveTurn = async (length: number): Promise<void> => {
  if (length > longText) await nextTurn();
};

/**
 * Returns a value as schemas check it.
 * @throws PayloadError if a list or an object has too many entries
 */
function prepareValue(given: Json): Json {
  const crowded = findCrowded(given);
  if (crowded === null) return normalizeNumbers(given);

  const { path, count } = crowded;
  const place = path.length === 0 ? 'payload' : formatPath(path.toReversed());
  throw new PayloadError([`${place}: has ${count} entries; at most ${maxEntries} are taken`]);
}

/** Reads a value with the kind's schema. Returns the problems in words, or the value read. */
function readMembers(kind: AnyKind, value: Json): { problems: string[]; read: unknown } {
  const result = checkInPieces(kind.schema, value);
  if ('data' in result) return { problems: [], read: result.data };
  const problems = describeIssues(result.issues, readRefusals(kind.schema));
  return { problems: problems.map(({ path, problem }) => `${path}: ${problem}`), read: undefined };
}

type Checked = { readonly data: unknown } | { readonly issues: readonly z.core.$ZodIssue[] };

function checkWhole(schema: z.ZodType, value: unknown): Checked {
  const result = schema.safeParse(value, { reportInput: true });
  return result.success ? { data: result.data } : { issues: result.error.issues };
}

/**
 * Checks a value with a schema, and stops after too many problems. Zod itself would collect all
 * problems of a list with thousands of entries. Therefore a long list is first checked in pieces.
 */
function checkInPieces(schema: z.ZodType, value: Json): Checked {
  const longest = findLongestList(value);
  if (!isObject(value) || longest <= pieceLength) return checkWhole(schema, value);

  const found: z.core.$ZodIssue[] = [];
  for (let from = 0; from < longest && found.length <= maxProblems; from += pieceLength) {
    const piece = Object.entries(value).map(([name, member]) => [
      name,
      Array.isArray(member) ? member.slice(from, from + pieceLength) : member,
    ]);
    const checked = checkWhole(schema, Object.fromEntries(piece));
    if ('issues' in checked)
      for (const issue of moveIssues(checked.issues, from)) found.push(issue);
  }
  return found.length > 0 ? { issues: found } : checkWhole(schema, value);
}

const findLongestList = (value: Json): number =>
  Object.values(isObject(value) ? value : {}).reduce<number>(
    (longest, member) => (Array.isArray(member) ? Math.max(longest, member.length) : longest),
    0,
  );

/**
 * Returns the issues of the entries of a piece, with their places in the whole list; of the first
 * piece, all issues.
 */
function moveIssues(
  issues: readonly z.core.$ZodIssue[],
  from: number,
): readonly z.core.$ZodIssue[] {
  if (from === 0) return issues;
  return issues.flatMap((issue) => {
    const [list, place, ...rest] = issue.path;
    if (list === undefined || typeof place !== 'number') return [];
    return [{ ...issue, path: [list, place + from, ...rest] }];
  });
}

/**
 * Finds the first array or object with too many entries. Its path begins with the innermost part.
 */
function findCrowded(
  value: Json,
): { readonly path: (string | number)[]; readonly count: number } | null {
  if (!Array.isArray(value) && !isObject(value)) return null;
  const names = Array.isArray(value) ? null : Object.keys(value);
  const members = Array.isArray(value) ? value : Object.values(value);
  if (members.length > maxEntries) return { path: [], count: members.length };

  for (const [index, member] of members.entries()) {
    const found = findCrowded(member);
    if (found === null) continue;
    found.path.push(names?.[index] ?? index);
    return found;
  }
  return null;
}

function parsePayload(payload: string): Json {
  try {
    return parseExact(payload, maxPayloadValues);
  } catch (error) {
    // Other errors cannot occur: the text comes from a JSON column.
    if (!(error instanceof ShapeError)) throw error;
    throw new PayloadError([`payload: ${error.message}`]);
  }
}

/**
 * Returns the problem of a document that cannot be printed; none if it is not base64: the schema
 * reports that.
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

/**
 * Returns the JSON Schema of a kind's payload, as `fulfilment.outbox_schema(kind)` shows it.
 * `x-refused` has the reasons why certain members are refused.
 */
export function toPayloadSchema({ name, schema }: AnyKind): JsonObject {
  const members = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' });
  return { title: name, ...(members as JsonObject) };
}

/** Returns the reasons why a schema does not have certain members, as `refusing` gave it. */
const readRefusals = (schema: z.ZodType) =>
  schema.meta()?.['x-refused'] as Readonly<Record<string, string>> | undefined;

/** Members that are sent unchanged. */
const passedThrough: ReadonlySet<string> = new Set(['pickUpPoint', 'metadata']);

/**
 * Turns numbers that would lose digits into texts: a decimal is then sent with all its digits, and
 * the schema refuses a whole number that is too large.
 */
function normalizeNumbers(value: Json): Json {
  if (typeof value !== 'object' || value === null) return value;
  if (JSON.isRawJSON(value))
    return Number.isSafeInteger(Number(value.rawJSON)) ? Number(value.rawJSON) : value.rawJSON;
  // Only what changes is copied: a copy of everything takes as long as a check.
  if (Array.isArray(value)) {
    const list = value.map(normalizeNumbers);
    return list.some((entry, index) => entry !== value[index]) ? list : value;
  }
  const changed = Object.keys(value).flatMap((name) => {
    const before = value[name] ?? null;
    const after = passedThrough.has(name) ? before : normalizeNumbers(before);
    return after === before ? [] : [[name, after] as const];
  });
  return changed.length === 0 ? value : withMembers(value, changed);
}

/** Returns a copy of an object with other values of some members, in the same order. */
function withMembers(
  object: { [member: string]: Json },
  changed: readonly (readonly [string, Json])[],
): { [member: string]: Json } {
  const values = new Map(changed);
  return Object.fromEntries(
    Object.entries(object).map(([name, member]) => [name, values.get(name) ?? member]),
  );
}

/** What is wrong with a member. */
interface MemberProblem {
  /**
   * Such as `items[0].quantity`. The name of an unknown member is quoted: it may hold personal
   * data.
   */
  readonly path: string;
  readonly problem: string;
}

/**
 * Describes what zod found wrong: one problem more than are listed, at most. The schema must have
 * read the value with `reportInput`.
 * @param refused reasons why the schema does not have certain members, by path without places in
 *   lists
 */
export function describeIssues(
  issues: readonly z.core.$ZodIssue[],
  refused: Readonly<Record<string, string>> = {},
): readonly MemberProblem[] {
  const found: MemberProblem[] = [];
  for (const issue of issues) {
    for (const problem of describeIssue(issue, refused)) found.push(problem);
    if (found.length > maxProblems) break;
  }
  return found.slice(0, maxProblems + 1);
}

function describeIssue(
  issue: z.core.$ZodIssue,
  refused: Readonly<Record<string, string>>,
): readonly MemberProblem[] {
  const path = formatPath(issue.path);
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.slice(0, maxProblems + 1).map((key) => {
      const name = [...issue.path.filter((part) => typeof part === 'string'), key].join('.');
      const reason = Object.hasOwn(refused, name) ? refused[name] : undefined;
      const problem = reason ?? 'is not a known member and must be removed';
      const shown = reason === undefined ? quote(key) : key;
      return { path: `${path === '' ? '' : `${path}.`}${shown}`, problem };
    });
  }
  const place = path === '' ? 'payload' : path;
  if (issue.code === 'invalid_type')
    return [
      {
        path: place,
        problem:
          issue.input === undefined ? 'is missing' : `must be ${withArticle(issue.expected)}`,
      },
    ];
  return [
    { path: place, problem: `${issue.message.charAt(0).toLowerCase()}${issue.message.slice(1)}` },
  ];
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
      typeof part === 'number'
        ? `${text}[${part}]`
        : text === ''
          ? String(part)
          : `${text}.${String(part)}`,
    '',
  );
}

/** Returns true if a member is neither absent nor null. */
export const isGiven = (value: JsonObject, member: string): boolean =>
  value[member] !== undefined && value[member] !== null;
