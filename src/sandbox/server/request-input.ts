/** Reads the query and the body of a request, and records what docs/interface.md does not show. */

import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import type { Oddity } from '../findings.ts';
import { flag, type Operation, readBoolean } from '../operations/operation.ts';
import { badParameter, Refusal } from '../refusal.ts';
import type { Members } from '../store/model.ts';
import type { World } from '../world.ts';

/** How a request is compared with its operation. */
interface Reading {
  /** Whether unknown parameters and other spellings are refused. */
  readonly isStrict: boolean;
  /**
   * Whether names are compared without their case, and values have other spellings: in the older
   * generations.
   */
  readonly isOlder: boolean;
  /** Whether a list of texts is decoded before it is split. */
  readonly decodesBeforeSplit: boolean;
  /** In a form everything is a text, so that a text is not a wrong type. */
  readonly isForm: boolean;
  readonly record: (oddity: Oddity) => void;
}

/** Reads a request. Strict refuses what docs/interface.md does not show, else it is adapted. */
export function readInput(
  operation: Operation,
  request: FastifyRequest,
  { strictness: { strict = false }, findings, clock, switches }: World,
): { readonly query: unknown; readonly body: unknown } {
  const { name, replacedBy, advised, described } = operation;
  const record = (oddity: Oddity) => findings.add(request.client, name, oddity);
  if (advised !== null) findings.noteCall(request.client, name, advised, clock.nowMs());
  if (replacedBy !== null) record({ code: 'deprecated_call', member: '', meant: replacedBy });
  if (!described) record({ code: 'not_in_description', member: '' });

  const reading = {
    isStrict: strict,
    isOlder: /^(oldest|v2)\./.test(name),
    decodesBeforeSplit: switches.decodesBeforeSplit,
    isForm: request.headers['content-type']?.startsWith(formType) ?? false,
    record,
  };
  const query = readQuery(splitUrl(request.url)[1], operation, reading);
  return { query, body: readBody(operation, request, reading) };
}

/** Divides a URL at its question mark. */
export function splitUrl(url: string): [string, string] {
  const [path = '', ...query] = url.split('?');
  return [path, query.join('?')];
}

function readBody(
  { form, body: schema }: Operation,
  { body, bodyText }: FastifyRequest,
  reading: Reading,
): unknown {
  if (schema === null) return null;

  const { isStrict, isOlder, isForm, record } = reading;
  if (isForm && form === 'never') record({ code: 'form_body', member: '' });
  const takesForms = form !== 'never' || (isOlder && !isStrict);
  if (isForm && !takesForms) throw new Refusal(415, 'The body must be JSON');
  if (!isForm && form === 'only') throw new Refusal(415, `The body must be ${formType}`);

  const given = isForm ? readForm(bodyText ?? '') : (body ?? null);
  const extras: string[] = [];
  const note = (oddity: Oddity) => {
    record(oddity);
    if (oddity.code === 'not_in_description') extras.push(oddity.member);
  };
  const normalized = normalizeBody(given, schema, { ...reading, record: note });
  if (isStrict && extras.length > 0)
    throw new Refusal(400, `${extras.join(', ')}: not shown in docs/interface.md`);
  return schema.parse(isStrict ? given : normalized);
}

/**
 * Parses a raw query string. An encoded comma belongs to its text; in lists of names and ids, it
 * separates values.
 */
function readQuery(
  rawQuery: string,
  { query: parameters, required }: Operation,
  reading: Reading,
): unknown {
  const values: Record<string, unknown> = {};
  for (const part of rawQuery.split('&').filter(Boolean)) {
    const [rawName = '', ...rest] = part.split('=');
    const sent = decodeText(rawName);
    const name = findName(sent, Object.keys(parameters), reading);
    if (name !== sent) {
      const code = name === undefined ? 'unknown_parameter' : 'odd_case';
      reading.record({ code, member: sent, meant: name });
      if (reading.isStrict) throw badParameter(sent, 'is not a parameter of this operation');
    }
    if (name === undefined) continue;
    if (Object.hasOwn(values, name)) throw badParameter(name, 'is given twice');

    const schema = parameters[name] ?? z.never();
    const read = schema.safeParse(readValue(name, rest.join('='), schema, reading));
    if (!read.success) throw badParameter(name, read.error.issues[0]?.message ?? 'is wrong');
    values[name] = read.data;
  }

  const missing = required.find((name) => !Object.hasOwn(values, name));
  if (missing !== undefined) throw badParameter(missing, 'is required');
  return values;
}

/** Returns the parameter or member that a name means; in older generations, in any case. */
function findName(
  sent: string,
  names: readonly string[],
  { isOlder }: Reading,
): string | undefined {
  if (names.includes(sent)) return sent;
  return names.find((name) => isOlder && name.toLowerCase() === sent.toLowerCase());
}

function readValue(
  name: string,
  raw: string,
  schema: z.ZodType,
  { isStrict, isOlder, decodesBeforeSplit, record }: Reading,
): string | string[] {
  if (schema instanceof z.ZodArray) {
    // docs/interface.md, 2.5: a comma in a text is encoded.
    if (schema.element instanceof z.ZodString && !decodesBeforeSplit)
      return raw.split(',').map(decodeText);
    if (/%2c/i.test(raw)) record({ code: 'encoded_comma', member: name });
    return decodeText(raw).split(',');
  }

  const text = decodeText(raw);
  const meant = schema === flag && isOlder ? readBoolean(text) : undefined;
  if (meant === undefined || text === String(meant)) return text;
  record({ code: 'wrong_type', member: name, meant: 'true or false' });
  return isStrict ? text : String(meant);
}

function decodeText(text: string): string {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch (error) {
    if (error instanceof URIError) throw badParameter(text, 'is not percent-encoded UTF-8');
    throw error;
  }
}

export const formType = 'application/x-www-form-urlencoded';
const maxSteps = 5;

type FormNode = { [name: string]: FormNode | string };

/**
 * Parses a form. Names may address members of lists and objects, as in `OrderItems[0].Sku` or
 * `OrderItems[0][Sku]`.
 */
function readForm(text: string): unknown {
  const root: FormNode = Object.create(null);
  for (const [name, value] of new URLSearchParams(text)) addMember(root, name, value);
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

  const entries = Object.entries(node).map(([name, value]) => [name, toLists(value)] as const);
  const isList = entries.length > 0 && entries.every(([name]) => /^\d{1,4}$/.test(name));
  if (!isList) return Object.fromEntries(entries);
  return entries.sort(([left], [right]) => Number(left) - Number(right)).map(([, value]) => value);
}

interface BodySchema {
  readonly type?: string | readonly string[] | undefined;
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

type TypedSchema = BodySchema & { readonly type: string | undefined };

const alternativesBySchema = new WeakMap<z.ZodType, readonly TypedSchema[]>();

/**
 * Adapts a body to its schema and records what is odd. What cannot be adapted is left to the check
 * of the schema.
 */
function normalizeBody(body: unknown, schema: z.ZodType, reading: Reading): unknown {
  let alternatives = alternativesBySchema.get(schema);
  if (alternatives === undefined) {
    const json = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' });
    alternatives = listAlternatives(json as BodySchema);
    alternativesBySchema.set(schema, alternatives);
  }
  return normalizeValue(body, alternatives, '', reading);
}

/** Returns the schemas of which a value must match one, each with one type at most. */
function listAlternatives(schema: BodySchema): readonly TypedSchema[] {
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices !== undefined) return choices.flatMap(listAlternatives);
  return [schema.type].flat().map((type) => ({ ...schema, type }));
}

function normalizeValue(
  value: unknown,
  schemas: readonly TypedSchema[],
  place: string,
  reading: Reading,
): unknown {
  // A schema without a type takes any value.
  if (value === null || value === undefined || schemas.some(({ type }) => type === undefined))
    return value;

  const record = (code: Oddity['code']) => {
    const meant = [...new Set(schemas.flatMap(({ type = [] }) => type))].join(' or ');
    reading.record({ code, member: place, meant });
  };
  if (typeof value !== 'object') return adaptScalar(value as Scalar, schemas, reading, record);

  const fitting = schemas.filter(
    ({ type }) => type === (Array.isArray(value) ? 'array' : 'object'),
  );
  if (fitting.length === 0) record('wrong_type');
  if (!Array.isArray(value))
    return fitting.length === 0 ? value : normalizeMembers(value, fitting, place, reading);

  const items = fitting.flatMap((schema) => (schema.items ? listAlternatives(schema.items) : []));
  return items.length === 0
    ? value
    : value.map((item) => normalizeValue(item, items, `${place}[]`, reading));
}

function normalizeMembers(
  value: object,
  schemas: readonly TypedSchema[],
  place: string,
  reading: Reading,
): unknown {
  const candidates = selectByConstants(value, schemas);
  const isOpen = candidates.some(({ additionalProperties }) => additionalProperties !== false);
  const properties = candidates.flatMap((schema) => Object.entries(schema.properties ?? {}));
  const names = properties.map(([name]) => name);
  const members: Record<string, unknown> = {};

  for (const [sent, member] of Object.entries(value)) {
    const inPlace = (name: string) => (place === '' ? name : `${place}.${name}`);
    const note = (code: Oddity['code'], meant = '') =>
      reading.record({ code, member: inPlace(sent), meant });

    const name = findName(sent, names, reading);
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
function selectByConstants(value: object, schemas: readonly TypedSchema[]): readonly TypedSchema[] {
  const given = value as Members;
  const fitting = schemas.filter(({ properties = {} }) =>
    Object.entries(properties).every(
      ([name, { const: constant }]) => constant === undefined || given[name] === constant,
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
  schemas: readonly TypedSchema[],
  { isOlder, isForm }: Reading,
  record: (code: Oddity['code']) => void,
): Scalar | null {
  const accepts = (wanted: string) =>
    schemas.some(({ type }) => type === wanted || (wanted === 'number' && type === 'integer'));
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

const isSpacedDate = (value: Scalar): value is string =>
  typeof value === 'string' && /^\d{4}-\d\d-\d\d \d\d:\d\d/.test(value);

const acceptsAnyText = ({ type, pattern, format }: TypedSchema) =>
  type === 'string' && pattern === undefined && format === undefined;
