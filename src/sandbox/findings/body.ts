import { z } from 'zod';
import { type BodySchema, describeTypes, hasType, listAlternatives } from './body-schema.ts';
import type { Oddity } from './findings.ts';
import { adaptScalar, type BodyReading } from './scalar.ts';
import { describeShape } from './shape.ts';

const alternativesBySchema = new WeakMap<z.ZodType, readonly BodySchema[]>();

/**
 * Returns a body with the names and types of the operation's schema, and without unknown members. Records what the schema
 * does not show. The caller checks the returned body: what cannot be adapted is left as it is.
 */
export function normalizeBody(body: unknown, schema: z.ZodType, reading: BodyReading): unknown {
  let alternatives = alternativesBySchema.get(schema);
  if (alternatives === undefined) {
    alternatives = listAlternatives(z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) as BodySchema);
    alternativesBySchema.set(schema, alternatives);
  }
  return normalizeValue(body, alternatives, '', reading);
}

function normalizeValue(value: unknown, schemas: readonly BodySchema[], place: string, reading: BodyReading): unknown {
  // A schema without a type takes any value.
  if (value === null || value === undefined || schemas.some(({ type }) => type === undefined)) return value;
  if (typeof value !== 'object') return adaptScalar(value, schemas, place, reading);
  const wanted = Array.isArray(value) ? 'array' : 'object';
  const fitting = schemas.filter((schema) => hasType(schema, wanted));
  if (fitting.length === 0) {
    reading.record({ code: 'wrong_type', member: place, shape: describeShape(value), meant: describeTypes(schemas) });
    return value;
  }
  if (!Array.isArray(value)) return normalizeMembers(value, fitting, place, reading);
  const items = fitting.flatMap((schema) => (schema.items ? listAlternatives(schema.items) : []));
  return items.length === 0 ? value : value.map((item) => normalizeValue(item, items, `${place}[]`, reading));
}

function normalizeMembers(value: object, schemas: readonly BodySchema[], place: string, reading: BodyReading): unknown {
  const candidates = selectByConstants(value, schemas);
  const isOpen = candidates.some(({ additionalProperties }) => additionalProperties !== false);
  const properties = candidates.flatMap((schema) => Object.entries(schema.properties ?? {}));
  const names = new Set(properties.map(([name]) => name));
  const namesInAnyCase = new Map(reading.isOlder ? properties.map(([name]) => [name.toLowerCase(), name]) : []);
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
    members.set(name, normalizeValue(member, found.flatMap(listAlternatives), joinPlace(place, name), reading));
  }
  return Object.fromEntries(members);
}

/** Returns the schemas whose constants, such as the type of a resource, the value has. Returns all if none fits. */
function selectByConstants(value: object, schemas: readonly BodySchema[]): readonly BodySchema[] {
  const given = value as Readonly<Record<string, unknown>>;
  const fitting = schemas.filter(({ properties = {} }) =>
    Object.entries(properties).every(
      ([name, schema]) => schema.const === undefined || !Object.hasOwn(given, name) || given[name] === schema.const,
    ),
  );
  return fitting.length > 0 ? fitting : schemas;
}

const joinPlace = (place: string, name: string) => (place === '' ? name : `${place}.${name}`);
