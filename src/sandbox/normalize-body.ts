import { z } from 'zod';
import type { Oddity } from './findings.ts';

interface BodySchema {
  readonly type?: string | readonly string[];
  readonly properties?: Readonly<Record<string, BodySchema>>;
  readonly additionalProperties?: unknown;
  readonly items?: BodySchema;
  readonly anyOf?: readonly BodySchema[];
  readonly oneOf?: readonly BodySchema[];
  readonly const?: unknown;
  readonly pattern?: string;
  readonly format?: string;
  readonly deprecated?: boolean;
  readonly 'x-not-in-description'?: boolean;
}

interface BodyReading {
  /**
   * Whether the names are compared without their case, and types are adapted: in the older
   * generations.
   */
  readonly isOlder: boolean;
  /** In a form everything is a text, so that a text is not a wrong type. */
  readonly isForm: boolean;
  readonly record: (oddity: Oddity) => void;
}

const alternativesBySchema = new WeakMap<z.ZodType, readonly BodySchema[]>();

/**
 * Adapts a body to its schema and records what is odd. What cannot be adapted is left to the check
 * of the schema.
 */
export function normalizeBody(body: unknown, schema: z.ZodType, reading: BodyReading): unknown {
  let alternatives = alternativesBySchema.get(schema);
  if (alternatives === undefined) {
    const json = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' });
    alternatives = listAlternatives(json as BodySchema);
    alternativesBySchema.set(schema, alternatives);
  }
  return normalizeValue(body, alternatives, '', reading);
}

/** Returns the schemas of which a value must match one. */
function listAlternatives(schema: BodySchema): readonly BodySchema[] {
  const choices = schema.anyOf ?? schema.oneOf;
  return choices === undefined ? [schema] : choices.flatMap(listAlternatives);
}

function normalizeValue(
  value: unknown,
  schemas: readonly BodySchema[],
  place: string,
  reading: BodyReading,
): unknown {
  // A schema without a type takes any value.
  if (value === null || value === undefined || schemas.some(({ type }) => type === undefined))
    return value;

  const record = (code: Oddity['code']) =>
    reading.record({ code, member: place, meant: describeTypes(schemas) });
  if (typeof value !== 'object') return adaptScalar(value as Scalar, schemas, reading, record);

  const wanted = Array.isArray(value) ? 'array' : 'object';
  const fitting = schemas.filter((schema) => hasType(schema, wanted));
  if (fitting.length === 0) {
    record('wrong_type');
    return value;
  }
  if (!Array.isArray(value)) return normalizeMembers(value, fitting, place, reading);

  const items = fitting.flatMap((schema) => (schema.items ? listAlternatives(schema.items) : []));
  return items.length === 0
    ? value
    : value.map((item) => normalizeValue(item, items, `${place}[]`, reading));
}

function normalizeMembers(
  value: object,
  schemas: readonly BodySchema[],
  place: string,
  reading: BodyReading,
): unknown {
  const candidates = selectByConstants(value, schemas);
  const isOpen = candidates.some(({ additionalProperties }) => additionalProperties !== false);
  const properties = candidates.flatMap((schema) => Object.entries(schema.properties ?? {}));
  const names = properties.map(([name]) => name);
  const find = (sent: string) =>
    names.find((name) => name === sent) ??
    names.find((name) => reading.isOlder && name.toLowerCase() === sent.toLowerCase());
  const members: Record<string, unknown> = {};

  for (const [sent, member] of Object.entries(value)) {
    const name = find(sent);
    const inPlace = (of: string) => (place === '' ? of : `${place}.${of}`);
    const note = (code: Oddity['code'], meant = '') =>
      reading.record({ code, member: inPlace(sent), meant });
    if (name === undefined) {
      if (isOpen) members[sent] = member;
      else note('unknown_member');
      continue;
    }
    if (name !== sent && (Object.hasOwn(value, name) || Object.hasOwn(members, name))) {
      note('given_twice', name);
      continue;
    }

    if (name !== sent) note('odd_case', name);
    const found = properties.filter(([known]) => known === name).map(([, schema]) => schema);
    if (found.some(({ deprecated }) => deprecated)) note('deprecated_member');
    if (found.some((schema) => schema['x-not-in-description'])) note('not_in_description');
    const alternatives = found.flatMap(listAlternatives);
    members[name] = normalizeValue(member, alternatives, inPlace(name), reading);
  }

  return members;
}

/**
 * Returns the schemas whose constants, such as the type of a resource, the value has. Returns all
 * if none fits.
 */
function selectByConstants(value: object, schemas: readonly BodySchema[]): readonly BodySchema[] {
  const given = value as Readonly<Record<string, unknown>>;
  const fitting = schemas.filter(({ properties = {} }) =>
    Object.entries(properties).every(
      ([name, { const: constant }]) =>
        constant === undefined || !Object.hasOwn(given, name) || given[name] === constant,
    ),
  );
  return fitting.length > 0 ? fitting : schemas;
}

type Scalar = string | number | boolean;

/**
 * Returns a text, number or boolean as a type of its schemas, if it can be adapted. Types of v3 are
 * not.
 */
function adaptScalar(
  value: Scalar,
  schemas: readonly BodySchema[],
  { isOlder, isForm }: BodyReading,
  record: (code: Oddity['code']) => void,
): Scalar | null {
  const accepts = (type: string) => schemas.some((schema) => hasType(schema, type));
  if (isSpacedDate(value) && schemas.some(({ format }) => format === 'date-time')) {
    record('date_with_space');
    return isOlder ? value.replace(' ', 'T') : value;
  }

  // Forms write an empty text for an absent number or date; Odoo writes false for any absent value.
  const isEmpty =
    value === '' ? !schemas.some(acceptsAnyText) : value === false && !accepts('boolean');
  const isForNull = isEmpty && accepts('null');
  if (!isForNull && accepts(typeof value)) return value;

  if (!isForm) record('wrong_type');
  if (!isOlder) return value;
  return isForNull ? null : (convertScalar(value, accepts) ?? value);
}

function convertScalar(value: Scalar, accepts: (type: string) => boolean): Scalar | undefined {
  if (typeof value === 'number' && accepts('string')) return String(value);
  if (typeof value === 'string' && accepts('number') && /^-?\d{1,15}(\.\d{1,10})?$/.test(value))
    return Number(value);
  return accepts('boolean') ? readBoolean(value) : undefined;
}

/** Returns the boolean that clients write as true, True, 1 or '1', and likewise for false. */
export function readBoolean(value: Scalar): boolean | undefined {
  const text = String(value).toLowerCase();
  if (text === 'true' || text === '1') return true;
  return text === 'false' || text === '0' ? false : undefined;
}

const isSpacedDate = (value: Scalar): value is string =>
  typeof value === 'string' && /^\d{4}-\d\d-\d\d \d\d:\d\d/.test(value);

const acceptsAnyText = (schema: BodySchema) =>
  hasType(schema, 'string') && schema.pattern === undefined && schema.format === undefined;

const listTypes = ({ type = [] }: BodySchema): readonly string[] => [type].flat();

function hasType(schema: BodySchema, type: string): boolean {
  const types = listTypes(schema);
  return types.includes(type) || (type === 'number' && types.includes('integer'));
}

const describeTypes = (schemas: readonly BodySchema[]): string =>
  [...new Set(schemas.flatMap(listTypes))].join(' or ');
