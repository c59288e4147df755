import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import type { Oddity } from './findings.ts';
import { Refusal } from './refusal.ts';

const alternativesBySchema = new WeakMap<z.ZodType, readonly BodySchema[]>();

/**
 * Adapts a body to its schema and records what is odd. What cannot be adapted is left to the check
 * of the schema.
 */
export function normalizeBody(body: unknown, schema: z.ZodType, reading: BodyReading): unknown {
  let alternatives = alternativesBySchema.get(schema);
  if (alternatives === undefined) {
    alternatives = listAlternatives(
      z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) as BodySchema,
    );
    alternativesBySchema.set(schema, alternatives);
  }
  return normalizeValue(body, alternatives, '', reading);
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
  if (typeof value !== 'object') return adaptScalar(value, schemas, place, reading);
  const wanted = Array.isArray(value) ? 'array' : 'object';
  const fitting = schemas.filter((schema) => hasType(schema, wanted));
  if (fitting.length === 0) {
    reading.record({
      code: 'wrong_type',
      member: place,
      shape: describeShape(value),
      meant: describeTypes(schemas),
    });
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
  const names = new Set(properties.map(([name]) => name));
  const namesInAnyCase = new Map(
    reading.isOlder ? properties.map(([name]) => [name.toLowerCase(), name]) : [],
  );
  const members = new Map<string, unknown>();
  for (const [sent, member] of Object.entries(value)) {
    const name = names.has(sent) ? sent : namesInAnyCase.get(sent.toLowerCase());
    const note = (code: Oddity['code'], meant = '') =>
      reading.record({ code, member: joinPlace(place, sent), shape: describeShape(member), meant });
    if (name === undefined) {
      if (isOpen) members.set(sent, member);
      else note('unknown_member');
      continue;
    }
    if (name !== sent && (Object.hasOwn(value, name) || members.has(name))) {
      note('given_twice', name);
      continue;
    }
    if (name !== sent) note('odd_case', name);
    const found = properties.filter(([known]) => known === name).map(([, schema]) => schema);
    if (found.some(({ deprecated }) => deprecated)) note('deprecated_member');
    if (found.some((schema) => schema['x-not-in-description'])) note('not_in_description');
    members.set(
      name,
      normalizeValue(member, found.flatMap(listAlternatives), joinPlace(place, name), reading),
    );
  }
  return Object.fromEntries(members);
}

/**
 * Returns the schemas whose constants, such as the type of a resource, the value has. Returns all
 * if none fits.
 */
function selectByConstants(value: object, schemas: readonly BodySchema[]): readonly BodySchema[] {
  const given = value as Readonly<Record<string, unknown>>;
  const fitting = schemas.filter(({ properties = {} }) =>
    Object.entries(properties).every(
      ([name, schema]) =>
        schema.const === undefined || !Object.hasOwn(given, name) || given[name] === schema.const,
    ),
  );
  return fitting.length > 0 ? fitting : schemas;
}

const joinPlace = (place: string, name: string) => (place === '' ? name : `${place}.${name}`);

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

type Scalar = string | number | boolean;

/**
 * Returns a text, number or boolean as a type of its schemas, if it can be adapted. Types of v3 are
 * not.
 */
function adaptScalar(
  value: unknown,
  schemas: readonly BodySchema[],
  place: string,
  { isOlder, isForm, record }: BodyReading,
): unknown {
  const accepts = (type: string) => schemas.some((schema) => hasType(schema, type));
  if (isSpacedDate(value, schemas)) {
    record({ code: 'date_with_space', member: place, shape: 'YYYY-MM-DD hh:mm:ss' });
    return isOlder ? value.replace(' ', 'T') : value;
  }
  // Forms write an empty text for an absent number or date; Odoo writes false for any absent value.
  const isEmpty =
    value === '' ? !schemas.some(acceptsAnyText) : value === false && !accepts('boolean');
  const isForNull = isEmpty && accepts('null');
  if (!isForNull && accepts(typeof value)) return value;
  if (!isForm)
    record({
      code: 'wrong_type',
      member: place,
      shape: describeShape(value),
      meant: describeTypes(schemas),
    });
  if (!isOlder) return value;
  if (isForNull) return null;
  return convertScalar(value as Scalar, accepts) ?? value;
}

function convertScalar(value: Scalar, accepts: (type: string) => boolean): Scalar | undefined {
  if (typeof value === 'number' && accepts('string')) return String(value);
  if (typeof value === 'string' && accepts('number') && /^-?\d{1,15}(\.\d{1,10})?$/.test(value))
    return Number(value);
  if (accepts('boolean')) return readBoolean(value);
  return undefined;
}

/** Returns the boolean that clients write as true, True, 1 or '1', and likewise for false. */
export function readBoolean(value: Scalar): boolean | undefined {
  const text = String(value).toLowerCase();
  if (text === 'true' || text === '1') return true;
  return text === 'false' || text === '0' ? false : undefined;
}

function isSpacedDate(value: unknown, schemas: readonly BodySchema[]): value is string {
  return (
    typeof value === 'string' &&
    schemas.some(({ format }) => format === 'date-time') &&
    /^\d{4}-\d\d-\d\d \d\d:\d\d/.test(value)
  );
}

const acceptsAnyText = (schema: BodySchema) =>
  hasType(schema, 'string') && schema.pattern === undefined && schema.format === undefined;

const maxDepth = 3;
const maxNames = 8;
const maxNameLength = 40;

/**
 * Returns the names and types of a value as a text such as `{sku: text, tags: [text]}`. It contains
 * no values.
 */
function describeShape(value: unknown, depth = maxDepth): string {
  if (value === null) return 'null';
  if (typeof value !== 'object') return typeof value === 'string' ? 'text' : typeof value;
  if (depth === 0) return '…';
  if (Array.isArray(value))
    return value.length === 0 ? '[]' : `[${describeShape(value[0], depth - 1)}]`;
  const members = Object.entries(value).map(
    ([name, member]) => `${name.slice(0, maxNameLength)}: ${describeShape(member, depth - 1)}`,
  );
  const shown = members.length > maxNames ? [...members.slice(0, maxNames), '…'] : members;
  return `{${shown.join(', ')}}`;
}

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

/** Returns the schemas of which a value must match one. */
function listAlternatives(schema: BodySchema): readonly BodySchema[] {
  const choices = schema.anyOf ?? schema.oneOf;
  return choices === undefined ? [schema] : choices.flatMap(listAlternatives);
}

function hasType(schema: BodySchema, type: string): boolean {
  const types = listTypes(schema);
  return types.includes(type) || (type === 'number' && types.includes('integer'));
}

const typeWords = {
  string: 'a text',
  integer: 'a whole number',
  number: 'a number',
  boolean: 'true or false',
  array: 'a list',
  object: 'an object',
  null: 'null',
};

function describeTypes(schemas: readonly BodySchema[]): string {
  const types = new Set(schemas.flatMap(listTypes));
  const words = Object.entries(typeWords).filter(([type]) => types.has(type));
  return words.map(([, word]) => word).join(' or ');
}

function listTypes({ type = [] }: BodySchema): readonly string[] {
  return typeof type === 'string' ? [type] : type;
}

const maxMembers = 20_000;
const maxIndex = 2_000;
const maxSteps = 5;

type FormNode = { [name: string]: FormNode | string };

/** Returns whether the body of a request is a form. */
export function isForm(request: FastifyRequest): boolean {
  return request.headers['content-type']?.startsWith('application/x-www-form-urlencoded') ?? false;
}

/**
 * Parses a form. Names may address members of lists and objects, as in `OrderItems[0].Sku` or
 * `OrderItems[0][Sku]`.
 */
export function readForm(text: string): unknown {
  const root: FormNode = Object.create(null);
  let members = 0;
  for (const [name, value] of new URLSearchParams(text)) {
    if (++members > maxMembers)
      throw new Refusal(400, `The form has more than ${maxMembers} members`);
    addMember(root, name, value);
  }
  return toLists(root);
}

function addMember(root: FormNode, name: string, value: string): void {
  const path = name.match(/[^.[\]]+/g) ?? [name];
  const last = path.pop() ?? name;
  if (path.length > maxSteps) throw new Refusal(400, 'A name leads too deep');
  let node = root;
  for (const step of path) {
    const next = node[step] ?? Object.create(null);
    if (typeof next === 'string') throw new Refusal(400, `${name} is a value and holds members`);
    node[step] = next;
    node = next;
  }
  if (node[last] !== undefined) throw new Refusal(400, `${name} is given twice`);
  node[last] = value;
}

/** Turns objects whose names are all numbers into lists. */
function toLists(node: FormNode | string): unknown {
  if (typeof node === 'string') return node;
  const entries = Object.entries(node);
  const isList = entries.length > 0 && entries.every(([name]) => /^\d{1,4}$/.test(name));
  if (!isList) return Object.fromEntries(entries.map(([name, value]) => [name, toLists(value)]));
  if (entries.some(([name]) => Number(name) > maxIndex))
    throw new Refusal(400, `A list counts beyond ${maxIndex}`);
  return entries
    .sort(([left], [right]) => Number(left) - Number(right))
    .map(([, value]) => toLists(value));
}
