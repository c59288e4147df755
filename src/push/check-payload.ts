/**
 * Checks payloads, and the rows that a program sends to be inserted. A long text, and one with a
 * document, is checked by a process of its own (check-process.ts).
 */

import { isUtf8 } from 'node:buffer';
import { createHash } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { z } from 'zod';
import { findUnstorable, isObject, type Json, parseExact, ShapeError } from '../core/json.ts';
import { hiddenValue } from '../core/personal-data.ts';
import { quote, shorten } from '../core/quote.ts';
import { dayMs } from '../core/time.ts';
import { type CheckTask, runInProcess } from './check-process.ts';
import {
  type AnyKind,
  type CheckContext,
  type CheckFacts,
  checkCodes,
  type FoundProblems,
  formatPath,
  joinProblems,
  limitProblems,
  maxProblems,
  type PayloadDocument,
  PayloadError,
  type PayloadProblem,
  problemAt,
} from './kind.ts';
import { nameKinds } from './kinds/registry.ts';
import { documentContent, maxPayloadValues, noOuterBlank, readRefusals } from './payload.ts';

/**
 * Maximum number of characters of what is checked in this process: the longest check takes some
 * milliseconds then. A check of 16 MB would stop everything else for a tenth of a second.
 */
const maxLocalLength = 64 * 1024;
/**
 * Maximum number of entries of an array, and of members of an object. One with more is not checked
 * any further.
 */
const maxEntries = 5_000;
/**
 * Maximum characters of a document, as base64 without white space: 12 MB. Base64 makes 16 MB of
 * them, and a payload has at most 16 MB.
 */
const maxDocumentLength = 16 * 1024 * 1024 + 4;
/** Maximum size of a payload: the INSERT refuses more. */
const maxBytes = 16 * 1024 * 1024;

/** A payload as JSON text, and its reference if it is known. */
interface GivenPayload {
  readonly payload: string;
  readonly reference?: string | undefined;
}

/** What reads a document: its problem, if it cannot be printed. The path is for people. */
export type ReadDocument = (path: string, content: string) => Promise<string | null>;

/** What a check uses in the process that does it. */
interface CheckTools extends CheckFacts {
  readonly readDocument: ReadDocument;
}

/** A payload as its kind's schema reads it, or what is wrong with it. */
type CheckedPayload = { readonly read: unknown } | FoundProblems;

/**
 * Reads a payload with its kind's schema, without other checks.
 * @throws PayloadError with every problem at once; or what `runInProcess` throws
 */
export const readPayload = async (
  kind: AnyKind,
  given: GivenPayload,
  context: CheckContext,
): Promise<unknown> => toRead(await checkText(kind, given, context, null));

/**
 * Reads a payload with all checks of its kind.
 * @throws PayloadError with every problem at once; or what `runInProcess` or the codes throw
 */
export const checkPayload = async (
  kind: AnyKind,
  given: GivenPayload,
  context: CheckContext,
): Promise<unknown> =>
  toRead(await checkCodes(context, (known) => checkText(kind, given, context, known)));

function toRead(checked: CheckedPayload): unknown {
  if ('problems' in checked) throw new PayloadError(checked.problems);
  return checked.read;
}

/**
 * Finds the problems of a payload as a worker does before it sends a row.
 * @throws what `runInProcess` or the codes throw
 */
export async function findPayloadProblems(
  kind: AnyKind,
  given: GivenPayload,
  context: CheckContext,
): Promise<readonly PayloadProblem[]> {
  const checked = await checkCodes(context, (known) => checkText(kind, given, context, known));
  return 'problems' in checked ? checked.problems : [];
}

/** @param known null: the payload is only read with the schema of its kind */
async function checkText(
  { name }: AnyKind,
  { payload, reference }: GivenPayload,
  context: CheckContext,
  known: CheckTask['known'],
): Promise<CheckedPayload> {
  const { operations } = context;
  const task = { do: 'check payload', kind: name, payload, reference, operations, known } as const;
  const checked = await check<{ read: unknown } | { json: string }>(task, payload.length, context);
  if (!('json' in checked)) return checked;

  // Reading the message of a process and parsing it are two turns, because either takes long.
  await nextTurn();
  return { read: parseExact(checked.json) };
}

/** A check met a document. Even a short one may keep its reader busy. */
class DocumentMetError extends Error {}

/** Does a task in this process, if it is short and without documents. */
async function check<T extends object>(
  task: CheckTask,
  length: number,
  context: CheckContext,
): Promise<T | FoundProblems> {
  const refuse = () => Promise.reject(new DocumentMetError());
  try {
    if (length <= maxLocalLength) return (await performCheck(task, refuse)) as T;
  } catch (error) {
    if (!(error instanceof DocumentMetError)) throw error;
  }
  return runInProcess<T>(task, context);
}

/** Does a task in this process. */
export async function performCheck(
  task: CheckTask,
  readDocument: ReadDocument,
): Promise<CheckedPayload | CheckedRows | RefusedBody> {
  const { operations, known } = task;
  if (task.do === 'check rows')
    return checkRowsHere(task.body, { operations, known: task.known, readDocument });

  const kind = nameKinds(operations).get(task.kind);
  if (kind === undefined) throw new TypeError(`there is no kind ${task.kind}`);
  return readHere(kind, task, known === null ? null : { operations, known, readDocument });
}

/**
 * Reads a payload in this process.
 * @param tools null: it is only read with the schema of its kind
 */
async function readHere(
  kind: AnyKind,
  { payload, reference }: GivenPayload,
  tools: CheckTools | null,
): Promise<CheckedPayload> {
  const parsed = parseText(payload);
  if ('words' in parsed) return { problems: [problemAt([], parsed.words)] };

  const { value } = parsed;
  if (tools === null) {
    const checked = readMembers(kind, value);
    return 'problems' in checked ? { problems: checked.problems } : checked;
  }
  return checkValue(kind, value, reference, tools);
}

/** Maximum characters of an error of others: it may repeat what was sent. */
const maxErrorLength = 1_000;

/** Parses JSON with every digit; or says what is wrong with it, and whether it is JSON at all. */
function parseText(
  text: string,
): { readonly value: Json } | { readonly words: string; readonly isJson: boolean } {
  try {
    return { value: parseExact(text, maxPayloadValues) };
  } catch (error) {
    if (error instanceof ShapeError) return { words: error.message, isJson: true };
    if (!(error instanceof SyntaxError)) throw error;

    const words = `is not JSON that can be read: ${shorten(error.message, maxErrorLength)}`;
    return { words, isJson: false };
  }
}

/**
 * Returns the problem of a reference; null if there is none. A blank at its end would make another
 * lane, but perhaps not another order: the service may store the number without it.
 */
function findReferenceProblem(reference: string | undefined): PayloadProblem | null {
  if (reference === undefined || reference === reference.trim()) return null;
  const words = reference.trim() === '' ? 'must not be empty' : noOuterBlank;
  return { path: [], text: `reference: ${words}` };
}

/** Checks a parsed payload in this process, and reads it. Of many problems, the first are named. */
async function checkValue(
  kind: AnyKind,
  given: Json,
  reference: string | undefined,
  tools: CheckTools,
): Promise<CheckedPayload> {
  const untaken = findUntakenReason(given);
  if (untaken !== null) return { problems: [problemAt([], untaken)] };

  const checked = readMembers(kind, given);
  const found = 'problems' in checked ? [...checked.problems] : [];

  const unnamed = findReferenceProblem(reference);
  if (unnamed !== null) found.push(unnamed);
  const value = 'value' in checked ? checked.value : null;
  if (isObject(value)) {
    for (const problem of kind.check?.(value, reference, tools) ?? []) found.push(problem);
    const documents = kind.documents?.(value) ?? [];
    for (const problem of await findDocumentProblems(documents, tools)) found.push(problem);
  }

  return found.length > 0 ? { problems: limitProblems(found) } : checked;
}

/**
 * Returns why a payload is not taken as a whole: the outbox would not store it, or a person copied
 * it from where personal data is hidden. Null if it is taken.
 */
function findUntakenReason(given: Json): string | null {
  const payload = JSON.stringify(given);
  if (holdsLongNumber(given)) return `holds a number of more than ${maxNumberLength} digits`;
  if (payload.includes(`"${hiddenValue}`))
    return `has ${hiddenValue} in place of hidden values; outbox show <id> --reveal shows them`;

  const bytes = Buffer.byteLength(payload) + countAddedBytes(given);
  return bytes > maxBytes
    ? `has ${bytes} bytes; at most ${maxBytes} (16 MB) are taken`
    : findUnstorable(given);
}

/** Maximum characters of a number. Postgres takes some more: 16,383 decimals. */
const maxNumberLength = 16_000;

/** Returns true if a number in a value is too long. It is still as it was written. */
const holdsLongNumber = (value: Json): boolean =>
  JSON.isRawJSON(value)
    ? JSON.stringify(value).length > maxNumberLength
    : typeof value === 'object' && value !== null && Object.values(value).some(holdsLongNumber);

/**
 * Returns how many bytes a value is longer as the text of jsonb, which the INSERT measures. Of a
 * number with an exponent, which jsonb writes out, it counts the most that there can be.
 */
function countAddedBytes(value: Json): number {
  if (typeof value === 'number' || JSON.isRawJSON(value))
    return Math.abs(Number(/e(.*)/i.exec(JSON.stringify(value))?.[1] ?? 0));
  if (typeof value !== 'object' || value === null) return 0;

  // A blank behind each comma and each colon.
  const members = Object.values(value);
  const blanks = members.length * (Array.isArray(value) ? 1 : 2) - 1;
  return members.reduce((sum: number, one) => sum + countAddedBytes(one), Math.max(0, blanks));
}

/**
 * Returns the problem of the first document that cannot be printed. The others are not read: a
 * hostile document keeps its reader busy. Of what is not base64, the schema reports that.
 */
async function findDocumentProblems(
  documents: readonly PayloadDocument[],
  { readDocument }: CheckTools,
): Promise<readonly PayloadProblem[]> {
  for (const { path, content } of documents) {
    const text = documentContent.safeParse(content);
    if (!text.success) continue;

    const tooLong = text.data.length > maxDocumentLength;
    const problem = tooLong
      ? 'is larger than 12 MB'
      : await readDocument(formatPath(path), text.data);
    if (problem !== null) return [problemAt(path, problem)];
  }
  return [];
}

/**
 * Reads a value with the kind's schema. `value` is the payload as schemas check it, if it could be
 * checked at all.
 */
function readMembers(
  kind: AnyKind,
  given: Json,
): ({ readonly read: unknown } | FoundProblems) & { readonly value?: Json } {
  const crowded = findCrowded(given);
  if (crowded !== null) {
    const words = `has ${crowded.count} entries; at most ${maxEntries} are taken`;
    return { problems: [problemAt(crowded.path.toReversed(), words)] };
  }

  const value = normalizeNumbers(given);
  const result = kind.schema.safeParse(value, { reportInput: true });
  if (result.success) return { read: result.data, value };

  return { problems: describeIssues(result.error.issues, readRefusals(kind.schema)), value };
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
  if (Array.isArray(value)) return value.map(normalizeNumbers);

  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [
      name,
      passedThrough.has(name) ? member : normalizeNumbers(member),
    ]),
  );
}

/**
 * Describes what zod found wrong: one problem more than are listed, at most. The schema must have
 * read the value with `reportInput`. The name of an unknown member is quoted: it may hold personal
 * data.
 * @param refused reasons why the schema does not have certain members, by path without places in
 *   lists
 * @param say joins the place of a member, which is empty for the whole, and what is wrong with it
 */
function describeIssues(
  issues: readonly z.core.$ZodIssue[],
  refused: Readonly<Record<string, string>> = {},
  say = (place: string, words: string) => `${place || 'payload'}: ${words}`,
): readonly PayloadProblem[] {
  const found: PayloadProblem[] = [];
  for (const issue of issues) {
    const path = issue.path as PayloadProblem['path'];
    if (issue.code !== 'unrecognized_keys')
      found.push({
        path,
        text: say(path.length === 0 ? '' : formatPath(path), describeIssue(issue)),
      });
    else
      for (const key of issue.keys.slice(0, maxProblems + 1)) {
        const name = [...path.filter((part) => typeof part === 'string'), key].join('.');
        const reason = Object.hasOwn(refused, name) ? refused[name] : undefined;
        const place = formatPath([...path, reason === undefined ? quote(key) : key]);
        const words = reason ?? 'is not a known member and must be removed';
        found.push({ path: [...path, key], text: say(place, words) });
      }
    if (found.length > maxProblems) break;
  }
  return found.slice(0, maxProblems + 1);
}

function describeIssue(issue: z.core.$ZodIssue): string {
  if (issue.code !== 'invalid_type')
    return `${issue.message.charAt(0).toLowerCase()}${issue.message.slice(1)}`;
  return issue.input === undefined ? 'is missing' : `must be ${withArticle(issue.expected)}`;
}

function withArticle(type: string): string {
  if (type === 'record') return 'an object';
  if (type === 'int') return 'a whole number';
  return /^[aeio]/.test(type) ? `an ${type}` : `a ${type}`;
}

/** Maximum number of rows in one request. */
const maxRows = 500;
/** Maximum length of a reference. */
const maxReference = 200;
/** Maximum length of a time: Postgres takes no more digits. */
const maxTimeLength = 50;
/** A little less than what the outbox takes, because of clocks that differ. */
const maxWaitMs = (100 * 365 - 1) * dayMs;
/** A text that is not empty. */
export const textUpTo = (max: number) =>
  z.string().min(1, 'must not be empty').max(max, `must have at most ${max} characters`);

const zonedTime = z.iso
  .datetime({
    offset: true,
    error: 'must be a time with its zone, such as 2026-05-04T10:00:00+02:00',
  })
  .max(maxTimeLength, `must have at most ${maxTimeLength} characters`)
  .refine(
    (text) => !(Math.abs(Date.parse(text) - Date.now()) >= maxWaitMs),
    'must be within 100 years from now',
  );
export const newRow = z.strictObject({
  kind: textUpTo(64),
  reference: textUpTo(maxReference),
  payload: z
    .unknown()
    .default({})
    .meta({ description: 'As docs/outbox-payloads.json says for the kind' }),
  not_before: zonedTime.optional(),
  notBefore: zonedTime.optional().meta({ description: 'The same as not_before' }),
});
const oneTime = newRow.refine(
  ({ not_before, notBefore }) => not_before === undefined || notBefore === undefined,
  { path: ['notBefore'], error: 'must be left out beside not_before' },
);
const rowCount = `must have 1 to ${maxRows} rows`;
const rowList = z.array(oneTime).min(1, rowCount).max(maxRows, rowCount);
/** One row, or several. */
export const newRows = z.union([newRow, rowList]);

/** Text that cannot be read as one row or several. */
interface RefusedBody extends FoundProblems {
  /** 400: it is no JSON; 422: it has another form. */
  readonly status: 400 | 422;
  readonly detail: string;
}

/** What was read of the rows, and what a worker would refuse of them. */
export interface CheckedRows extends FoundProblems {
  /** SHA-256 of what was sent, in hex. It does not depend on white space. */
  readonly hash: string;
  /** False if one row was sent, without a list. */
  readonly isList: boolean;
  /** The rows as `insertRows` takes them; empty if a worker would refuse any. */
  readonly rows: string;
}

/**
 * Reads and checks rows.
 * @param body JSON of one row or of several
 * @throws what `runInProcess` or the codes throw
 */
export const checkRows = (
  body: Uint8Array,
  context: CheckContext,
): Promise<CheckedRows | RefusedBody | FoundProblems> =>
  checkCodes(context, (known) => {
    const task = { do: 'check rows', body, operations: context.operations, known } as const;
    return check<CheckedRows | RefusedBody>(task, body.length, context);
  });

/** Reads and checks rows in this process. */
async function checkRowsHere(
  body: Uint8Array,
  tools: CheckTools,
): Promise<CheckedRows | RefusedBody> {
  const parsed = parseBody(body);
  if ('detail' in parsed) return parsed;

  const { value } = parsed;
  // One row more than the maximum is enough to refuse a list.
  const read = Array.isArray(value)
    ? readPart(rowList, value.slice(0, maxRows + 1))
    : readPart(oneTime, value);
  if ('problems' in read)
    return { status: 422, detail: joinProblems(read.problems), problems: read.problems };

  const rows = [read.value].flat().map(({ not_before, notBefore, payload, ...row }, place) => ({
    place,
    ...row,
    payload: payload as Json,
    notBefore: not_before ?? notBefore,
  }));
  const problems = await findProblems(rows, tools);
  return {
    hash: createHash('sha256').update(JSON.stringify(read.value)).digest('hex'),
    isList: Array.isArray(value),
    rows: problems.length > 0 ? '' : JSON.stringify(rows),
    problems,
  };
}

function parseBody(body: Uint8Array): { readonly value: Json } | RefusedBody {
  if (!isUtf8(body)) return { status: 400, detail: 'The body is not text in UTF-8', problems: [] };

  const parsed = parseText(Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString());
  return 'value' in parsed
    ? parsed
    : { status: parsed.isJson ? 422 : 400, detail: `The body ${parsed.words}`, problems: [] };
}

/** Reads a part of a request with its schema. Returns the problems in words, or the value. */
export function readPart<T>(
  schema: z.ZodType<T>,
  data: unknown,
): { readonly value: T } | FoundProblems {
  const read = schema.safeParse(data, { reportInput: true });
  if (read.success) return { value: read.data };

  const say = (place: string, words: string) => `${place || 'The request'} ${words}`;
  return { problems: limitProblems(describeIssues(read.error.issues, {}, say)) };
}

/** Finds what a worker would refuse: the check of `outbox check`, for each row. */
async function findProblems(
  rows: readonly { kind: string; reference: string; payload: Json }[],
  { readDocument, ...facts }: CheckTools,
): Promise<readonly PayloadProblem[]> {
  const kinds = nameKinds(facts.operations);
  const found: PayloadProblem[] = [];
  for (const [place, { kind: name, reference, payload }] of rows.entries()) {
    if (found.length > maxProblems) break;
    const mark = rows.length === 1 ? '' : `[${place}] `;
    const tools: CheckTools = {
      ...facts,
      readDocument: (path, content) => readDocument(`${mark}${path}`, content),
    };
    const problems = await findRowProblems(kinds, name, payload, { reference, tools });
    for (const { path, text } of problems) found.push({ path, text: `${mark}${text}` });
    await nextTurn();
  }

  return limitProblems(found);
}

async function findRowProblems(
  kinds: ReadonlyMap<string, AnyKind>,
  name: string,
  payload: Json,
  { reference, tools }: { readonly reference: string; readonly tools: CheckTools },
): Promise<readonly PayloadProblem[]> {
  const kind = kinds.get(name);
  if (kind === undefined) {
    const words = `there is no kind ${name}; known are ${[...kinds.keys()].join(', ')}`;
    return [{ path: [], text: `kind: ${words}` }];
  }

  const checked = await checkValue(kind, payload, reference, tools);
  return 'problems' in checked ? checked.problems : [];
}
