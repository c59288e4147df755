/** Parsed JSON. A number whose digits do not all fit into a double stays a raw JSON fragment. */
export type Json = string | number | boolean | null | RawJson | Json[] | { [member: string]: Json };

/** A number with its original digits. JSON.stringify writes it back unchanged. */
interface RawJson {
  readonly rawJSON: string;
}

// Both functions are part of ES2025 (JSON.parse source text access), but not yet of the compiler's
// library.
declare global {
  interface JSON {
    rawJSON(text: string): RawJson;
    isRawJSON(value: unknown): value is RawJson;
  }
}

/**
 * Matches numbers that may lose digits as a double: many digits, an exponent, a trailing zero after
 * the point, -0.
 */
const lossyNumber = /^[^.eE]{16}|^.{17}|[eE]|\..*0$|^-0/;

/**
 * Maximum levels of nested arrays and objects. A resource of the service has six; some thousands
 * overflow the stack.
 */
const maxDepth = 2_000;

/**
 * Maximum number of values in one answer: a list of 100,000 parcels with 14 members each. Parsing
 * many more would take longer than a lease lasts, during which the worker cannot renew it, and
 * would fill the memory of a small machine.
 */
const maxAnswerValues = 1_500_000;

const [backslash, quote, comma, minus, plus, point, zero, nine] = [
  0x5c, 0x22, 0x2c, 0x2d, 0x2b, 0x2e, 0x30, 0x39,
];
const [openBracket, closeBracket, openBrace, closeBrace, upperE, lowerE] = [
  0x5b, 0x5d, 0x7b, 0x7d, 0x45, 0x65,
];

/**
 * The error of JSON that is nested too deep, or holds too many values: it would overflow the stack
 * or the memory.
 */
export class ShapeError extends SyntaxError {
  constructor(message: string) {
    super(message);
    this.name = 'ShapeError';
  }
}

/**
 * Parses JSON without losing a digit.
 * @param maxValues maximum number of values; by default as many as an answer of the service may
 *   have
 * @throws SyntaxError if the text is not JSON, ShapeError if it is nested too deep or holds too
 *   many values
 */
export function parseExact(text: string, maxValues = maxAnswerValues): Json {
  if (!scanJson(text, maxValues)) return JSON.parse(text) as Json;
  return JSON.parse(text, keepDigits as Parameters<typeof JSON.parse>[1]) as Json;
}

/** A reviver of `JSON.parse`. Keeps a number as it was written, if a double would lose digits. */
function keepDigits(_key: string, value: Json, { source }: { source?: string }): Json {
  if (typeof value !== 'number' || source === undefined || String(value) === source) return value;

  return JSON.rawJSON(source);
}

/**
 * Checks the shape of a JSON text. It looks only at brackets, commas and numbers, and skips
 * strings, so that it takes a fraction of the time of parsing.
 * @returns true if a number in the text may lose digits as a double
 * @throws ShapeError if the text is nested too deep or holds too many values
 */
function scanJson(text: string, maxValues: number): boolean {
  let depth = 0;
  let values = 0;
  let losesDigits = false;

  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index);

    if (code === quote) index = findStringEnd(text, index);
    else if (code === openBracket || code === openBrace) {
      if (++depth > maxDepth) throw new ShapeError('nests too deep');
      values++;
    } else if (code === closeBracket || code === closeBrace) depth--;
    else if (code === comma) values++;
    else if (code === minus || (code >= zero && code <= nine)) {
      const end = findNumberEnd(text, index);
      losesDigits ||= lossyNumber.test(text.slice(index, end));
      index = end - 1;
    }

    if (values > maxValues) throw new ShapeError(`holds more than ${maxValues} values`);
  }

  return losesDigits;
}

/** Returns the index after the number that begins at `start`. */
function findNumberEnd(text: string, start: number): number {
  let end = start + 1;
  for (; end < text.length; end++) {
    const code = text.charCodeAt(end);
    const isNumberPart =
      (code >= zero && code <= nine) || code === point || code === plus || code === minus;
    if (!isNumberPart && code !== lowerE && code !== upperE) break;
  }
  return end;
}

/**
 * Returns the index of the quote that ends the string at `start`, or the length of the text if
 * there is none.
 */
function findStringEnd(text: string, start: number): number {
  const end = text.indexOf('"', start + 1);
  if (end < 0) return text.length;
  if (text.charCodeAt(end - 1) !== backslash) return end;

  // There are escapes. A search for each quote would take long if all of them are escaped.
  let index = start + 1;
  for (; index < text.length; index++) {
    const code = text.charCodeAt(index);
    if (code === quote) break;
    if (code === backslash) index++;
  }
  return index;
}

/** Counts the backslashes directly before an index. */
function countBackslashesBefore(text: string, place: number): number {
  let backslashes = 0;
  while (text.charCodeAt(place - 1 - backslashes) === backslash) backslashes++;
  return backslashes;
}

/**
 * Converts a raw number that is whole, such as `3.0` or `1e1`, to a number. Returns other values
 * unchanged.
 */
export function toWholeNumber(value: unknown): unknown {
  return JSON.isRawJSON(value) && /^-?\d+(\.0+)?([eE]\+?\d+)?$/.test(value.rawJSON)
    ? Number(value.rawJSON)
    : value;
}

/** Returns true for an object with members: not null, an array or a raw number. */
export function isObject(value: unknown): value is { [member: string]: Json } {
  return (
    typeof value === 'object' && value !== null && !Array.isArray(value) && !JSON.isRawJSON(value)
  );
}

/**
 * Writes a value as JSON text that Postgres can store. In strings and names of members, it replaces
 * NUL by the symbol U+2400, and half of a surrogate pair by U+FFFD.
 */
export function toStorableJson(value: unknown): string {
  // A replacer makes this several times slower. Only a text with one of these characters needs it.
  const text = JSON.stringify(value);
  if (text === undefined || findUnstorableReason(text) === null) return text;

  return JSON.stringify(value, (_name, member: unknown) => {
    if (typeof member === 'string') return toStorable(member);
    if (!isObject(member)) return member;
    return Object.fromEntries(Object.entries(member).map(([name, one]) => [toStorable(name), one]));
  });
}

const toStorable = (words: string) => words.replaceAll('\0', '\u2400').toWellFormed();

/**
 * Returns the reason why Postgres cannot store this JSON text as jsonb, or null if it can. Postgres
 * refuses NUL and lone surrogates, both in values and in member names.
 */
export function findUnstorableReason(text: string): string | null {
  if (!text.includes('\\u')) return null;

  // JSON.stringify writes NUL, lone surrogates and a few other characters as \u escapes. This loop
  // uses no regular expression: one that also matches the backslashes before takes a minute for
  // some 10,000 backslashes.
  for (let at = text.indexOf('\\u'); at >= 0; at = text.indexOf('\\u', at + 2)) {
    if (countBackslashesBefore(text, at) % 2 === 1) continue;

    const digits = text.slice(at + 2, at + 6).toLowerCase();
    if (digits === '0000') return 'holds a NUL character, which Postgres cannot store';
    if (/^d[89a-f]/.test(digits))
      return 'holds half of a surrogate pair, which Postgres cannot store';
  }
  return null;
}

/**
 * Matches a number that is beyond a double. Postgres refuses it, or writes it out: `1e131071` takes
 * 131,072 characters, and a text with thousands of such numbers is too large to be read again.
 */
const hugeNumber = /\d[eE][+-]?0*(?:[1-9]\d{3}|[4-9]\d\d)/;

/**
 * Returns false if Postgres can certainly store a JSON text and every part of it. Otherwise
 * `findUnstorable` has to look, which takes much longer.
 */
export const mayBeUnstorable = (text: string): boolean =>
  text.includes('\\u') || hugeNumber.test(text);

/** Returns the reason why received JSON must not be stored as jsonb; null if it can be stored. */
export function findUnstorable(value: Json): string | null {
  const text = JSON.stringify(value);
  const isHuge = hugeNumber.test(text) && holdsHugeNumber(text);

  return isHuge ? 'holds a number with a huge exponent' : findUnstorableReason(text);
}

/** Returns whether a JSON text has a huge number outside its strings. */
function holdsHugeNumber(text: string): boolean {
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index);

    if (code === quote) index = findStringEnd(text, index);
    else if (code >= zero && code <= nine) {
      const end = findNumberEnd(text, index);
      if (hugeNumber.test(text.slice(index, end))) return true;
      index = end - 1;
    }
  }
  return false;
}

/** Parses a JSON object without losing a digit. Returns null if the text is not a JSON object. */
export function parseObject(
  text: string,
  maxValues = maxAnswerValues,
): { [member: string]: Json } | null {
  try {
    const value = parseExact(text, maxValues);
    return isObject(value) ? value : null;
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    return null;
  }
}
