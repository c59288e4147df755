/** JSON as parsed; a number that a double cannot hold with all its digits stays a raw JSON fragment. */
export type Json = string | number | boolean | null | RawJson | Json[] | { [member: string]: Json };

/** A number kept letter for letter; JSON.stringify writes it back as it stood. */
interface RawJson {
  readonly rawJSON: string;
}

// Both are in the language since ES2025 (JSON.parse source text access) but not yet in the compiler's library.
declare global {
  interface JSON {
    rawJSON(text: string): RawJson;
    isRawJSON(value: unknown): value is RawJson;
  }
}

/** Numbers whose digits may not survive a double: many digits, an exponent, a trailing zero after the point, negative zero. */
const mayLoseDigits = /^[^.eE]{16}|^.{17}|[eE]|\..*0$|^-0/;

/** Levels of arrays and objects within each other. A resource of the interface has six; some thousands end a stack. */
const deepest = 2_000;

/**
 * Values in one text: a list of 100,000 parcels with 14 members each. Many more would keep a worker from its heartbeats for as
 * long as a lease lasts, and fill the memory of a small machine.
 */
const mostValues = 1_500_000;

const [quote, comma, minus, plus, point, zero, nine] = [0x22, 0x2c, 0x2d, 0x2b, 0x2e, 0x30, 0x39];
const [openBracket, closeBracket, openBrace, closeBrace, upperE, lowerE] = [0x5b, 0x5d, 0x7b, 0x7d, 0x45, 0x65];

/** JSON of a shape that this product does not take: it would end the stack, or fill the memory. */
export class ShapeError extends SyntaxError {
  constructor(message: string) {
    super(message);
    this.name = 'ShapeError';
  }
}

/**
 * Parses JSON without losing a digit.
 * @throws SyntaxError where the text is no JSON, ShapeError where it nests too deep or holds too many values
 */
export function parseExact(text: string): Json {
  if (!scan(text)) return JSON.parse(text) as Json;
  return JSON.parse(text, ((_key: string, value: Json, context: { source?: string }) =>
    typeof value === 'number' && context.source !== undefined && String(value) !== context.source
      ? JSON.rawJSON(context.source)
      : value) as (this: unknown, key: string, value: unknown) => unknown) as Json;
}

/**
 * Looks at brackets, commas and numbers alone, and jumps over strings: it takes a fraction of the time of parsing.
 * @returns whether a number in it may lose digits as a double
 */
function scan(text: string): boolean {
  let depth = 0;
  let values = 0;
  let exact = false;
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index);
    if (code === quote) index = endOfString(text, index);
    else if (code === openBracket || code === openBrace) {
      if (++depth > deepest) throw new ShapeError('nests too deep');
      values++;
    } else if (code === closeBracket || code === closeBrace) depth--;
    else if (code === comma) values++;
    else if (code === minus || (code >= zero && code <= nine)) {
      const end = endOfNumber(text, index);
      exact ||= mayLoseDigits.test(text.slice(index, end));
      index = end - 1;
    }
  }
  if (values > mostValues) throw new ShapeError(`holds more than ${mostValues} values`);
  return exact;
}

/** The place behind a number that begins at `start`. */
function endOfNumber(text: string, start: number): number {
  let end = start + 1;
  for (; end < text.length; end++) {
    const code = text.charCodeAt(end);
    const goesOn = (code >= zero && code <= nine) || code === point || code === plus || code === minus;
    if (!goesOn && code !== lowerE && code !== upperE) break;
  }
  return end;
}

/** The place of the quote that ends the string which begins at `start`; the end of the text where none does. */
function endOfString(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end >= 0; end = text.indexOf('"', end + 1)) {
    if (backslashesBefore(text, end) % 2 === 0) return end;
  }
  return text.length;
}

/** How many backslashes stand right before a place. */
function backslashesBefore(text: string, place: number): number {
  let backslashes = 0;
  while (text.charCodeAt(place - 1 - backslashes) === 0x5c) backslashes++;
  return backslashes;
}

/** A number that was kept though it is whole, such as `3.0` or `1e1`, as a number; anything else as it is. */
export function wholeIfKept(value: unknown): unknown {
  return JSON.isRawJSON(value) && /^-?\d+(\.0+)?([eE]\+?\d+)?$/.test(value.rawJSON) ? Number(value.rawJSON) : value;
}

/** True for an object with members: neither null, an array, nor a kept number. */
export function isObject(value: unknown): value is { [member: string]: Json } {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !JSON.isRawJSON(value);
}

/** JSON text that Postgres keeps, whatever a service wrote: NUL is shown as a sign for it, half a surrogate pair replaced. */
export function storableJson(value: unknown): string {
  return JSON.stringify(value, (_name, member: unknown) =>
    typeof member === 'string' ? member.replaceAll('\0', '\u2400').toWellFormed() : member,
  );
}

/**
 * Why Postgres could not keep this JSON text as jsonb, or null where it can: it refuses NUL and lone surrogates,
 * in values and in member names alike.
 */
export function unstorableReason(text: string): string | null {
  if (!text.includes('\\u')) return null;
  // JSON.stringify writes NUL and lone surrogates, and only few other characters, as \u escapes. Looked for without a
  // regular expression: one that also looks at the backslashes before takes a minute for some 10,000 of them.
  for (let at = text.indexOf('\\u'); at >= 0; at = text.indexOf('\\u', at + 2)) {
    if (backslashesBefore(text, at) % 2 === 1) continue;
    const digits = text.slice(at + 2, at + 6).toLowerCase();
    if (digits === '0000') return 'holds a NUL character, which Postgres cannot store';
    if (/^d[89a-f]/.test(digits)) return 'holds half of a surrogate pair, which Postgres cannot store';
  }
  return null;
}

/** A JSON object, every digit kept; null where the text is none. */
export function parseObject(text: string): { [member: string]: Json } | null {
  try {
    const value = parseExact(text);
    return isObject(value) ? value : null;
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    return null;
  }
}
