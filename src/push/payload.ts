import { setImmediate as nextTurn } from 'node:timers/promises';
import { z } from 'zod';
import { findUnstorableReason, isObject, type Json, parseExact, ShapeError } from '../core/json.ts';
import { quote } from '../core/quote.ts';
import { type FoundProblems, maxLocalLength, runInProcess } from './check-process.ts';
import {
  type AnyKind,
  type CheckContext,
  type CheckFacts,
  checkCodes,
  type JsonObject,
  type KnownCodes,
  limitProblems,
  maxProblems,
  type PayloadDocument,
  PayloadError,
} from './kind.ts';

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
/** Maximum size of a payload: the INSERT refuses more. */
const maxBytes = 16 * 1024 * 1024;

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

/** A payload as JSON text. Without a reference, the number in the payload is taken for it. */
interface GivenPayload {
  readonly payload: string;
  readonly reference?: string | undefined;
}

/** What a check uses in the process that does it. */
export interface CheckTools extends CheckFacts {
  /** Returns the problem of a document that cannot be printed. */
  readonly readDocument: (path: string, content: string) => Promise<readonly string[]>;
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
): Promise<unknown> => toRead(await readAnywhere(kind, given, context, null));

/**
 * Reads a payload with all checks of its kind.
 * @throws PayloadError with every problem at once; or what `runInProcess` or the codes throw
 */
export const checkPayload = async (
  kind: AnyKind,
  given: GivenPayload,
  context: CheckContext,
): Promise<unknown> =>
  toRead(await checkCodes(context, (known) => readAnywhere(kind, given, context, known)));

/**
 * Finds the problems of a payload as a worker does before it sends a row.
 * @throws what `runInProcess` or the codes throw
 */
export async function findPayloadProblems(
  kind: AnyKind,
  given: GivenPayload,
  context: CheckContext,
): Promise<readonly string[]> {
  const checked = await checkCodes(context, (known) => readAnywhere(kind, given, context, known));
  return 'problems' in checked ? checked.problems : [];
}

function toRead(checked: CheckedPayload): unknown {
  if ('problems' in checked) throw new PayloadError(checked.problems);
  return checked.read;
}

/**
 * Reads a payload in this process; if it is long, in a process of its own.
 * @param known null: it is only read with the schema of its kind
 */
async function readAnywhere(
  kind: AnyKind,
  { payload, reference }: GivenPayload,
  context: CheckContext,
  known: KnownCodes | null,
): Promise<CheckedPayload> {
  const { operations } = context;
  if (payload.length <= maxLocalLength) {
    const tools = known === null ? null : { operations, known, ...useHere(context) };
    return readHere(kind, { payload, reference }, tools);
  }

  const answer = await runInProcess<{ readonly read: string }>(
    { do: 'read payload', kind: kind.name, payload, reference, operations, known },
    context,
  );
  if ('problems' in answer) return answer;

  // Reading the message and parsing it are two turns, because either takes long.
  await nextTurn();
  return { read: parseExact(answer.read) };
}

/** Returns how a check in this process reads documents: even a short one in another process. */
export const useHere = (
  context: Pick<CheckContext, 'owner' | 'signal'>,
): Pick<CheckTools, 'readDocument'> => ({
  readDocument: async (path, content) => {
    const task = { do: 'read document', path, content } as const;
    const { problems } = await runInProcess<FoundProblems>(task, context);
    return problems;
  },
});

/**
 * Reads a payload in this process.
 * @param tools null: it is only read with the schema of its kind
 */
export async function readHere(
  kind: AnyKind,
  { payload, reference }: GivenPayload,
  tools: CheckTools | null,
): Promise<CheckedPayload> {
  let value: Json;
  try {
    value = parseExact(payload, maxPayloadValues);
  } catch (error) {
    if (error instanceof ShapeError) return { problems: [`payload: ${error.message}`] };
    if (!(error instanceof SyntaxError)) throw error;
    const place = describePlace(payload, error.message);
    return { problems: [`payload: is not JSON that can be read: ${error.message}${place}`] };
  }

  if (tools === null) return readMembers(kind, value);
  return checkValue(kind, value, reference ?? guessReference(value), tools);
}

/** Names the line and column of an error, unless its message has them. */
function describePlace(text: string, message: string): string {
  if (/line \d+/.test(message)) return '';
  if (text.length > maxLocatedLength) return '';
  const before = text.slice(0, findBadToken(text)).split('\n');
  return ` (line ${before.length} column ${(before.at(-1) ?? '').length + 1})`;
}

/** Maximum length of a text in which a bad token is located: it is parsed some 20 times. */
const maxLocatedLength = 1_000_000;

/**
 * Finds the place of a token that JSON does not allow: JSON.parse names it without its position.
 * Every beginning that ends before it only lacks an end, so that the shortest one with the same
 * error ends with it.
 */
function findBadToken(text: string): number {
  let [good, bad] = [0, text.length + 1];
  while (bad - good > 1) {
    const middle = Math.floor((good + bad) / 2);
    if (hasBadToken(text.slice(0, middle))) bad = middle;
    else good = middle;
  }
  return good;
}

function hasBadToken(text: string): boolean {
  try {
    JSON.parse(text);
    return false;
  } catch (error) {
    return error instanceof SyntaxError && error.message.startsWith('Unexpected token');
  }
}

/** Returns the order number of a payload, or any text. */
function guessReference(payload: Json): string {
  const number = isObject(payload) ? payload.externalOrderNumber : undefined;
  return typeof number === 'string' && number.trim() !== '' ? number : 'any';
}

/** Checks a parsed payload in this process, and reads it. Of many problems, the first are named. */
export async function checkValue(
  kind: AnyKind,
  given: Json,
  reference: string,
  tools: CheckTools,
): Promise<CheckedPayload> {
  const unstorable = findUnstorable(JSON.stringify(given));
  if (unstorable !== null) return { problems: [`payload: ${unstorable}`] };

  const checked = readMembers(kind, given);
  const found = 'problems' in checked ? [...checked.problems] : [];

  if (reference.trim() === '') found.push('reference: must not be empty');
  const value = 'value' in checked ? checked.value : null;
  if (isObject(value)) {
    for (const problem of kind.check?.(value, reference, tools) ?? []) found.push(problem);
    const documents = kind.documents?.(value) ?? [];
    for (const problem of await findDocumentProblems(documents, tools)) found.push(problem);
  }

  return found.length > 0 ? { problems: limitProblems(found) } : checked;
}

/** Returns why the outbox would not store a payload; null if it would. */
function findUnstorable(payload: string): string | null {
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
 * Reads a value with the kind's schema. `value` is the payload as schemas check it, if it could be
 * checked at all.
 */
function readMembers(
  kind: AnyKind,
  given: Json,
): ({ readonly read: unknown } | FoundProblems) & { readonly value?: Json } {
  const crowded = findCrowded(given);
  if (crowded !== null) {
    const { path, count } = crowded;
    const place = path.length === 0 ? 'payload' : formatPath(path.toReversed());
    return { problems: [`${place}: has ${count} entries; at most ${maxEntries} are taken`] };
  }

  const value = normalizeNumbers(given);
  const result = kind.schema.safeParse(value, { reportInput: true });
  if (result.success) return { read: result.data, value };

  const problems = describeIssues(result.error.issues, readRefusals(kind.schema));
  return { problems: problems.map(({ path, problem }) => `${path}: ${problem}`), value };
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
  if (Array.isArray(value)) return value.map(normalizeNumbers);

  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [
      name,
      passedThrough.has(name) ? member : normalizeNumbers(member),
    ]),
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

/** Marks members with personal data. They are masked wherever a payload is shown. */
export const personal = { 'x-personal': true } as const;

/** Describes members whose value is a code of a list of the service. */
export const codeOf = (list: string) => ({ description: `code of the service list ${list}` });

/** Describes members that have the id of an entry of a list of the service, instead of its code. */
export const idOf = (list: string, byCode: string) => ({
  description: `id of the service list ${list}, instead of ${byCode}`,
});

/**
 * Gives a payload the reasons, for people, why it does not have certain members; by path, without
 * places in lists.
 */
export const refusing = (refused: Readonly<Record<string, string>>) => ({ 'x-refused': refused });

/** Schema of a payload without members. */
export const noMembers = z.strictObject({});

/** An optional text. Null is the same as absent. */
export const optionalText = z.string().nullish();
/** An optional text with personal data. */
export const personalText = z.string().nullish().meta(personal);
/**
 * Returns the schema of a member that is required, unless `WAREHOUSE_OPERATIONS_FILE` makes it
 * optional. Then it may be absent or null.
 * @param path such as `items.sku` for a member of each entry of `items`
 */
export type RequireMember = <T>(
  path: string,
  schema: z.ZodType<T>,
) => z.ZodType<T | null | undefined>;

/** Returns how members are required if these may be absent (config/optional-members.ts). */
export const requireUnless =
  (optional: readonly string[] = []): RequireMember =>
  (path, schema) =>
    optional.includes(path) ? schema.nullish() : schema;

export const requiredText = z.string().min(1, 'must not be empty');
export const idNumber = z.int('must be a whole number').min(1, 'must be at least 1');
export const quantity = z
  .int('must be a whole number')
  .min(1, 'must be at least 1')
  .max(1_000_000, 'must be at most 1000000');
export const day = z.iso.date('must be a date in the form YYYY-MM-DD');
const noDecimal = 'must be a number or a decimal text such as "9.95"';
/** A number, or its digits as a text so that no digit is lost. */
export const decimal = z.union(
  [z.number(), z.string().regex(/^-?(0|[1-9]\d{0,17})(\.\d{1,30})?$/, noDecimal)],
  {
    error: noDecimal,
  },
);
const noRate = 'must be a rate from 0 to 1, such as 0.21 for 21 %';
/** Digits above 1 that a JavaScript number rounds to 1. */
const aboveOne = /^1\.0*[1-9]/;
/** A rate from 0 to 1. */
export const rate = decimal
  .refine(
    (value) => Number(value) >= 0 && Number(value) <= 1 && !aboveOne.test(String(value)),
    noRate,
  )
  .meta({ description: 'rate: 0.21 is 21 %' });
/** An object with members that the ERP chooses. */
export const anyMembers = z.record(z.string(), z.unknown()).nullish().meta(personal);
/**
 * Returns the schema of an object that may have these texts only. A null text is the same as
 * absent.
 */
export const textsNamed = <const N extends string>(...names: readonly N[]) =>
  z
    .strictObject(
      Object.fromEntries(names.map((name) => [name, personalText])) as Record<
        N,
        typeof personalText
      >,
    )
    .nullish();
/**
 * Removes white space. A regular expression would take seconds for a text of 16 MB that is half
 * blank.
 */
function removeWhiteSpace(text: string): string {
  // A text with other characters is no base64.
  if (!/\s/.test(text) || /\P{ASCII}/u.test(text)) return text;

  const bytes = Buffer.from(text, 'latin1');
  let length = 0;
  for (let index = 0; index < bytes.length; index++) {
    const byte = bytes[index] ?? 0;
    const isWhite = byte === 0x20 || (byte >= 0x09 && byte <= 0x0d);
    if (!isWhite) bytes[length++] = byte;
  }
  return bytes.toString('latin1', 0, length);
}

/**
 * Base64. White space is allowed, because encode() of Postgres breaks lines, and removed before
 * sending.
 */
export const base64Text = z
  .string()
  .transform(removeWhiteSpace)
  .pipe(z.base64('must be base64'))
  .meta({ description: 'base64; white space is allowed' });
/** A pdf document in base64. */
export const documentContent = base64Text
  .refine((text) => text !== '', 'must not be empty')
  .meta({ ...personal, description: 'pdf document, base64; white space is allowed' });
