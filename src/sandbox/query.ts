/** A request the interface does not allow; answered 400 with JSON:API errors that name the parameter. */
export class BadRequest extends Error {
  readonly parameter: string;
  constructor(parameter: string, detail: string) {
    super(detail);
    this.name = 'BadRequest';
    this.parameter = parameter;
  }
}

/** Query parameters in order, each with its values split at bare commas before they are decoded. */
export type Query = ReadonlyMap<string, readonly string[]>;

/** Reads a raw query string; commas inside a value are told from those between values by their encoding. */
export function readQuery(rawQuery: string): Query {
  const query = new Map<string, readonly string[]>();
  for (const part of rawQuery.split('&').filter(Boolean)) {
    const [rawName = '', ...rest] = part.split('=');
    const name = decode(rawName);
    if (query.has(name)) throw new BadRequest(name, 'is given twice');
    query.set(name, rest.join('=').split(',').map(decode));
  }
  return query;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch (error) {
    if (error instanceof URIError) throw new BadRequest(text, 'is not percent-encoded UTF-8');
    throw error;
  }
}

/** @throws BadRequest where a parameter is not among those the operation has */
export function allowOnly(query: Query, names: readonly string[]): void {
  for (const name of query.keys())
    if (!names.includes(name)) throw new BadRequest(name, 'is not a parameter of this operation');
}

/** A non-empty unique list, such as `filter[...][in]` and `include`; null where the parameter is absent. */
export function listOf(query: Query, name: string, allowed?: readonly string[]): readonly string[] | null {
  const values = query.get(name);
  if (values === undefined) return null;
  if (values.length === 0 || values.some((value) => value === '')) throw new BadRequest(name, 'must not be empty');
  if (new Set(values).size !== values.length) throw new BadRequest(name, 'must hold each value once');
  const stranger = allowed && values.find((value) => !allowed.includes(value));
  if (stranger !== undefined) throw new BadRequest(name, `does not know ${stranger}; allowed: ${allowed?.join(', ')}`);
  return values;
}

/** A list of whole numbers. */
export function idsOf(query: Query, name: string): ReadonlySet<number> | null {
  const values = listOf(query, name);
  if (values === null) return null;
  return new Set(values.map((value) => wholeNumber(name, value)));
}

/** A calendar date, YYYY-MM-DD. */
export function dateOf(query: Query, name: string): string | null {
  const value = query.get(name)?.join(',');
  if (value === undefined) return null;
  const isDate = /^\d{4}-\d{2}-\d{2}$/.test(value) && !Number.isNaN(Date.parse(`${value}T00:00:00Z`));
  if (!isDate) throw new BadRequest(name, 'must be a date in the form YYYY-MM-DD');
  return value;
}

/** A whole number within bounds. */
export function numberOf(query: Query, name: string, fallback: number, min: number, max: number): number {
  const value = query.get(name)?.join(',');
  if (value === undefined) return fallback;
  const number = wholeNumber(name, value);
  if (number < min || number > max) throw new BadRequest(name, `must be from ${min} to ${max}`);
  return number;
}

function wholeNumber(name: string, value: string): number {
  if (!/^\d{1,15}$/.test(value)) throw new BadRequest(name, 'must hold whole numbers');
  return Number(value);
}
