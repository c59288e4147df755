import { setImmediate as nextTurn } from 'node:timers/promises';
import { z } from 'zod';
import { isObject, type Json, parseExact, ShapeError } from '../core/json.ts';
import { quote } from '../core/quote.ts';
import { type FoundProblems, maxLocalLength, runInProcess } from './check-process.ts';
import {
  type AnyKind,
  type CheckContext,
  type JsonObject,
  maxProblems,
  type PayloadDocument,
  PayloadError,
} from './kind.ts';
import { documentContent } from './payload-members.ts';

/**
 * Maximum number of entries of an array, and of members of an object. One with more is not checked
 * any further.
 */
const maxEntries = 5_000;
/**
 * Maximum number of values in a payload, and in all payloads of a request: an order of 5,000 lines
 * with 14 members each, and more.
 */
export const maxPayloadValues = 100_000;
/**
 * Maximum characters of a document, as base64 without white space: 12 MB. Base64 makes 16 MB of
 * them, and a payload has at most 16 MB.
 */
const maxDocumentLength = 16 * 1024 * 1024 + 4;
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

/** The payload and the reference of a row. */
interface CheckedRow {
  readonly payload: string;
  readonly reference: string;
}

/** What a check uses in the process that does it. */
export interface CheckTools extends CheckContext {
  /** Returns the problem of a document that cannot be printed. */
  readonly readDocument: (path: string, content: string) => Promise<readonly string[]>;
}

/**
 * Reads a payload with its kind's schema, without other checks.
 * @throws PayloadError with every problem at once; or what `runInProcess` throws
 */
export const readPayload = (
  kind: AnyKind,
  row: CheckedRow,
  context: CheckContext,
): Promise<unknown> => readAnywhere(kind, row, context, 'schema');

/**
 * Reads a payload with all checks of its kind.
 * @throws PayloadError with every problem at once; or what `runInProcess` or the codes throw
 */
export const checkPayload = (
  kind: AnyKind,
  row: CheckedRow,
  context: CheckContext,
): Promise<unknown> => readAnywhere(kind, row, context, 'all');

/** Reads a payload in this process; if it is long, in a process of its own. */
async function readAnywhere(
  kind: AnyKind,
  { payload, reference }: CheckedRow,
  context: CheckContext,
  checks: 'schema' | 'all',
): Promise<unknown> {
  if (payload.length <= maxLocalLength)
    return readHere(kind, { payload, reference }, useHere(context), checks);

  const { operations } = context;
  const answer = await runInProcess<{ readonly read: string }>(
    { do: 'read payload', kind: kind.name, payload, reference, operations, checks },
    context,
  );
  if ('problems' in answer) throw new PayloadError(answer.problems);

  // Reading the message and parsing it are two turns, because either takes long.
  await nextTurn();
  return parseExact(answer.read);
}

/** Returns what a check in this process uses. Even a short document is read by another process. */
export const useHere = (context: CheckContext): CheckTools => ({
  ...context,
  readDocument: async (path, content) => {
    const task = { do: 'read document', path, content } as const;
    const { problems } = await runInProcess<FoundProblems>(task, context);
    return problems;
  },
});

/**
 * Reads a payload in this process.
 * @throws PayloadError with every problem at once; or what the tools throw
 */
export async function readHere(
  kind: AnyKind,
  { payload, reference }: CheckedRow,
  tools: CheckTools,
  checks: 'schema' | 'all',
): Promise<unknown> {
  if (checks === 'schema') return readBySchema(kind, payload);
  return checkValue(kind, parsePayload(payload), reference, tools);
}

/**
 * Reads a payload in this process, with its kind's schema only.
 * @throws PayloadError with every problem at once
 */
export function readBySchema(kind: AnyKind, payload: string): unknown {
  const { problems, read } = readMembers(kind, prepareValue(parsePayload(payload)));
  if (problems.length > 0) throw new PayloadError(problems);
  return read;
}

/**
 * Checks a parsed payload in this process, and reads it.
 * @throws PayloadError with every problem at once; or what the tools throw
 */
export async function checkValue(
  kind: AnyKind,
  given: Json,
  reference: string,
  tools: CheckTools,
): Promise<unknown> {
  const value = prepareValue(given);
  const { problems, read } = readMembers(kind, value);
  const found = [...problems];

  if (reference.trim() === '') found.push('reference: must not be empty');
  if (isObject(value)) {
    for (const problem of (await kind.check?.(value, reference, tools)) ?? []) found.push(problem);
    const documents = kind.documents?.(value) ?? [];
    for (const problem of await findDocumentProblems(documents, tools)) found.push(problem);
  }

  if (found.length > 0) throw new PayloadError(found);
  return read;
}

/**
 * Returns the problem of the first document that cannot be printed. The others are not read: a
 * hostile document keeps its reader busy. Of what is not base64, the schema reports that.
 */
async function findDocumentProblems(
  documents: readonly PayloadDocument[],
  { readDocument }: CheckTools,
): Promise<readonly string[]> {
  for (const { path, content } of documents) {
    const text = documentContent.safeParse(content);
    if (!text.success) continue;

    const tooLong = text.data.length > maxDocumentLength;
    const problems = tooLong
      ? [`${path}: is larger than 12 MB`]
      : await readDocument(path, text.data);
    if (problems.length > 0) return problems;
  }
  return [];
}

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

function withArticle(type: string): string {
  if (type === 'record') return 'an object';
  if (type === 'int') return 'a whole number';
  return /^[aeio]/.test(type) ? `an ${type}` : `a ${type}`;
}

function formatPath(path: readonly PropertyKey[]): string {
  let text = '';
  for (const part of path) {
    const dot = text === '' ? '' : '.';
    text += typeof part === 'number' ? `[${part}]` : `${dot}${String(part)}`;
  }
  return text;
}

/** Returns true if a member is neither absent nor null. */
export const isGiven = (value: JsonObject, member: string): boolean =>
  value[member] !== undefined && value[member] !== null;
