/**
 * Checks payloads, and the rows that a program sends to be inserted. A long text, and one with a
 * document, is checked by a process of its own (check-program.ts).
 */

import { isUtf8 } from 'node:buffer';
import { type ChildProcess, fork } from 'node:child_process';
import { createHash } from 'node:crypto';
import { on } from 'node:events';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { z } from 'zod';
import type { Operations } from '../../config/operations.ts';
import { CodedError, toStopError } from '../core/errors.ts';
import { programs } from '../core/installation.ts';
import { findUnstorableReason, isObject, type Json, parseExact, ShapeError } from '../core/json.ts';
import { hiddenValue } from '../core/personal-data.ts';
import { quote, shorten } from '../core/quote.ts';
import { dayMs } from '../core/time.ts';
import {
  type AnyKind,
  type CheckContext,
  type CheckFacts,
  checkCodes,
  type FoundProblems,
  formatPath,
  joinProblems,
  type KnownCodes,
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
  const untaken = findUntakenReason(JSON.stringify(given));
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
function findUntakenReason(payload: string): string | null {
  if (payload.includes(`"${hiddenValue}`))
    return `has ${hiddenValue} in place of hidden values; outbox show <id> --reveal shows them`;

  const bytes = Buffer.byteLength(payload);
  return bytes > maxBytes
    ? `has ${bytes} bytes; at most ${maxBytes} (16 MB) are taken`
    : findUnstorableReason(payload);
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

  const found = describeIssues(result.error.issues, readRefusals(kind.schema));
  const problems = found.map(({ path, place, words }) => ({ path, text: `${place}: ${words}` }));
  return { problems, value };
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

/** What is wrong with a member. */
interface MemberProblem extends Pick<PayloadProblem, 'path'> {
  /** Its path for people. The name of an unknown member is quoted: it may hold personal data. */
  readonly place: string;
  readonly words: string;
}

/**
 * Describes what zod found wrong: one problem more than are listed, at most. The schema must have
 * read the value with `reportInput`.
 * @param refused reasons why the schema does not have certain members, by path without places in
 *   lists
 */
function describeIssues(
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
  const path = issue.path as PayloadProblem['path'];
  if (issue.code === 'unrecognized_keys')
    return issue.keys.slice(0, maxProblems + 1).map((key) => {
      const name = [...path.filter((part) => typeof part === 'string'), key].join('.');
      const reason = Object.hasOwn(refused, name) ? refused[name] : undefined;
      return {
        path: [...path, key],
        place: formatPath([...path, reason === undefined ? quote(key) : key]),
        words: reason ?? 'is not a known member and must be removed',
      };
    });

  const place = formatPath(path);
  if (issue.code !== 'invalid_type')
    return [
      { path, place, words: `${issue.message.charAt(0).toLowerCase()}${issue.message.slice(1)}` },
    ];

  const isMissing = issue.input === undefined;
  return [
    { path, place, words: isMissing ? 'is missing' : `must be ${withArticle(issue.expected)}` },
  ];
}

function withArticle(type: string): string {
  if (type === 'record') return 'an object';
  if (type === 'int') return 'a whole number';
  return /^[aeio]/.test(type) ? `an ${type}` : `a ${type}`;
}

/** Width and height of the page formats in points, upright (ISO 216). */
const formats = { A4: [595.28, 841.89], A5: [419.53, 595.28] } as const;
/** Tolerated difference in points, because programs round differently. */
const tolerancePoints = 5;

/**
 * Returns why a document cannot be attached to an order; null if it can. It must be a pdf, with all
 * pages A4 or all A5 (docs/interface.md, 5.1 Values).
 * @param content base64
 */
export async function findPrintProblem(content: string): Promise<string | null> {
  const bytes = Buffer.from(content, 'base64');
  if (bytes.subarray(0, 5).toString('latin1') !== '%PDF-') return 'is not a pdf document';
  // Imported here because the library is large and few rows need it.
  const { PDFDocument } = await import('@cantoo/pdf-lib');
  let sizes: { width: number; height: number }[];

  try {
    const document = await PDFDocument.load(bytes, {
      updateMetadata: false,
      ignoreEncryption: true,
    });
    sizes = document.getPages().map((page) => page.getSize());
  } catch (error) {
    // The error may quote the document, so its text is not used.
    if (error instanceof Error) return 'is a pdf document that cannot be read';
    throw error;
  }

  const found = new Set(sizes.map(findFormat));
  if (found.size === 0) return 'is a pdf document without pages';
  if (found.has(null)) return 'has pages that are neither A4 nor A5';

  return found.size > 1 ? 'mixes pages of A4 and A5' : null;
}

function findFormat({ width, height }: { width: number; height: number }): string | null {
  const [short, long] = [Math.min(width, height), Math.max(width, height)];
  const isNear = (points: number, wanted: number) => Math.abs(points - wanted) <= tolerancePoints;
  const names = Object.keys(formats) as (keyof typeof formats)[];
  return (
    names.find((name) => isNear(short, formats[name][0]) && isNear(long, formats[name][1])) ?? null
  );
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

  const problems = describeIssues(read.error.issues).map(({ path, place, words }) => ({
    path,
    text: `${path.length === 0 ? 'The request' : place} ${words}`,
  }));
  return { problems: limitProblems(problems) };
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

// The processes that check payloads, and whose turn it is to use one.

/**
 * Maximum time between two messages of a process, in milliseconds. It ends itself after 10 s of CPU
 * time, so this is for one that does nothing.
 */
const deadlineMs = 300_000;
/**
 * Maximum memory of a process, in MB, besides the bytes that it is given. A thread with a memory
 * limit is not enough: if it exceeds the limit, it can end the whole process.
 */
const memoryLimitMb = 384;
/** Maximum number of processes. Each owner has at most one of them. */
const maxProcesses = 2;
/**
 * Time that an idle process is kept, in milliseconds. Starting one takes some tenths of a second.
 */
const idleMs = 30_000;

/** What a process is asked to do. */
export type CheckTask = {
  readonly operations: Operations;
} & (
  | {
      readonly do: 'check payload';
      readonly kind: string;
      readonly payload: string;
      readonly reference: string | undefined;
      /** Null: it is only read with the schema of its kind. */
      readonly known: KnownCodes | null;
    }
  | { readonly do: 'check rows'; readonly body: Uint8Array; readonly known: KnownCodes }
);

/** What a process sends. */
export type CheckMessage =
  /** The path of the document that it reads now; null if it has read it. */
  | { readonly reading: string | null }
  | { readonly result: object; readonly lacks: boolean }
  | { readonly fault: string };

type TaskContext = Pick<CheckContext, 'owner' | 'signal'>;

const owners = new Set<string>();
const waiting: { readonly owner: string; readonly start: () => void }[] = [];
/** Idle processes, with the timer that ends each. */
const idle = new Map<ChildProcess, NodeJS.Timeout>();

/**
 * Has a task done in a separate process with bounded memory and time, because a hostile document of
 * some KB can keep its reader busy forever.
 * @param context whose turn it is, and what ends the task
 * @returns the result; problems only, if the task takes too much time or memory
 * @throws CodedError if it was stopped, or the process ended unexpectedly
 */
export async function runInProcess<T extends object>(
  task: CheckTask,
  context: TaskContext,
): Promise<T | FoundProblems> {
  await waitForTurn(context);
  try {
    const [kept] = idle.keys();
    let end = await converse(kept ?? startProcess(), task, context);
    // Earlier tasks may have filled the memory of a kept process, and somebody may have ended it.
    // Only a new one proves that this task is too much.
    if (kept !== undefined && 'lost' in end) end = await converse(startProcess(), task, context);

    if ('result' in end) {
      if (task.known !== null) task.known.lacks = end.lacks;
      return end.result as T;
    }
    if (end.isCostly) return { problems: [{ path: [], text: describeCost(end.reading) }] };
    throw new CodedError('payload_not_checked', end.lost);
  } finally {
    giveTurn(context.owner);
  }
}

const describeCost = (reading: string | null) =>
  reading === null
    ? 'payload: takes too much time or memory to be checked'
    : `${reading}: is a pdf document that cannot be read: it takes too much time or memory`;

/** Waits until an owner may have a process. */
async function waitForTurn({ owner, signal }: TaskContext): Promise<void> {
  if (signal.aborted) throw toStopError(signal);
  if (owners.size < maxProcesses && !owners.has(owner)) {
    owners.add(owner);
    return;
  }

  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const turn = { owner, start: resolve };
  const stop = () => {
    waiting.splice(waiting.indexOf(turn), 1);
    reject(toStopError(signal));
  };
  waiting.push(turn);
  signal.addEventListener('abort', stop, { once: true });
  await promise.finally(() => signal.removeEventListener('abort', stop));
}

/**
 * Gives the turn of an owner to the first waiting owner that has no turn. If no other owner waits,
 * the same owner gets it again.
 */
function giveTurn(owner: string): void {
  const findNext = () => waiting.findIndex((turn) => !owners.has(turn.owner));
  const other = findNext();
  owners.delete(owner);
  const place = other === -1 ? findNext() : other;
  const [next] = place === -1 ? [] : waiting.splice(place, 1);
  if (next === undefined) return;

  owners.add(next.owner);
  next.start();
}

/** The end of a task. `reading` is the document that the process was reading; null if none. */
type TaskEnd =
  | { readonly result: object; readonly lacks: boolean }
  | { readonly lost: string; readonly isCostly: boolean; readonly reading: string | null };

/** Has a process do a task. Afterwards, the process is kept or has ended. */
async function converse(
  checker: ChildProcess,
  task: CheckTask,
  context: TaskContext,
): Promise<TaskEnd> {
  clearTimeout(idle.get(checker));
  idle.delete(checker);
  checker.ref();
  checker.channel?.ref();

  try {
    const end = await exchangeMessages(checker, task, context);
    if ('result' in end) keepProcess(checker);
    else checker.kill('SIGKILL');
    return end;
  } catch (error) {
    checker.kill('SIGKILL');
    throw context.signal.aborted ? toStopError(context.signal) : error;
  }
}

async function exchangeMessages(
  checker: ChildProcess,
  task: CheckTask,
  context: TaskContext,
): Promise<TaskEnd> {
  const late = new AbortController();
  const signal = AbortSignal.any([context.signal, late.signal]);
  const messages = on(checker, 'message', { signal, close: ['exit'] });
  let timer = setTimeout(() => late.abort(), deadlineMs);
  let reading: string | null = null;
  // If the process has ended, its end is seen elsewhere.
  checker.send(task, () => undefined);
  try {
    for await (const [message] of messages as AsyncIterable<[CheckMessage]>) {
      clearTimeout(timer);
      if ('result' in message) return message;
      if ('fault' in message) return { lost: message.fault, isCostly: false, reading };

      reading = message.reading;
      timer = setTimeout(() => late.abort(), deadlineMs);
    }
  } catch (error) {
    if (!late.signal.aborted) throw error;
    return { lost: 'the process that checks payloads is stuck', isCostly: false, reading };
  } finally {
    clearTimeout(timer);
  }

  // V8 ends a process with these signals if its memory does not suffice, and the process itself if
  // it has used too much time.
  const { signalCode, exitCode } = checker;
  const isCostly = signalCode === 'SIGABRT' || signalCode === 'SIGTRAP';
  const lost = `the process that checks payloads ended: ${signalCode ?? exitCode}`;
  return { lost, isCostly, reading };
}

function startProcess(): ChildProcess {
  const checker = fork(programs.checker, {
    execArgv: [`--max-old-space-size=${memoryLimitMb}`],
    // It needs no variables, and must not see the secrets in ours.
    env: {},
    stdio: 'ignore',
    // Sends bytes and texts as they are. Writing 16 MB as JSON would take a tenth of a second.
    serialization: 'advanced',
  });

  checker.on('exit', () => idle.delete(checker));
  // Without this listener, an error of an idle process would end this one.
  checker.on('error', () => idle.delete(checker));

  return checker;
}

function keepProcess(checker: ChildProcess): void {
  // The process has ended since.
  if (!checker.connected) return;

  // It must not keep this process alive.
  checker.unref();
  checker.channel?.unref();
  const timer = setTimeout(() => {
    if (idle.delete(checker)) checker.kill('SIGKILL');
  }, idleMs);
  idle.set(checker, timer.unref());
}
