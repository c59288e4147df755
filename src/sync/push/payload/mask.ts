import { isObject, type Json } from '../../../core/json.ts';
import type { AnyKind } from './kind.ts';
import { payloadSchema } from './payload.ts';

const masked = '•••';

const plainTypes: ReadonlySet<unknown> = new Set(['string', 'number', 'integer', 'boolean', 'null']);

/**
 * Whether the schema wants a text, a number or the like; JSON Schema names one type or several. Of such a value where it
 * wants an object or a list nothing is known.
 */
const isPlain = ({ type, const: only }: { [member: string]: Json }) =>
  only !== undefined || (type !== undefined && [type].flat().every((name) => plainTypes.has(name)));

/**
 * A payload without its personal data: what the kind's schema marks as such, and everything it does not know, is hidden;
 * that a member is there, and how long a document is, can still be seen.
 */
export function maskPayload(kind: AnyKind | undefined, payload: Json): Json {
  return maskBy(kind === undefined ? null : payloadSchema(kind), payload);
}

function maskBy(schema: Json | null, value: Json): Json {
  if (value === null) return null;
  if (schema === null || !isObject(schema) || schema['x-personal'] === true) return hide(value);
  const choices = [schema.anyOf, schema.oneOf].find(Array.isArray) ?? null;
  if (choices !== null) {
    // Nullable members are written as a choice between them and null.
    const others = choices.filter((choice) => !(isObject(choice) && choice.type === 'null'));
    const marked = others.some((choice) => isObject(choice) && choice['x-personal'] === true);
    if (marked) return hide(value);
    if (others.length === 1) return maskBy(others[0] ?? null, value);
    const arePlain = others.every((choice) => isObject(choice) && isPlain(choice));
    return arePlain && !isObject(value) && !Array.isArray(value) ? value : hide(value);
  }
  if (Array.isArray(value)) return value.map((entry) => maskBy(schema.items ?? null, entry));
  if (!isObject(value)) return isPlain(schema) ? value : hide(value);
  const properties = isObject(schema.properties) ? schema.properties : {};
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [name, maskBy(properties[name] ?? null, member)]),
  );
}

/** A result without documents: long texts are shown by their length. */
export function shortenResult(value: Json): Json {
  if (Array.isArray(value)) return value.map(shortenResult);
  if (isObject(value))
    return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, shortenResult(member)]));
  return typeof value === 'string' && value.length > 500 ? `(${value.length} characters)` : value;
}

function hide(value: Json): Json {
  if (Array.isArray(value)) return value.map(hide);
  if (isObject(value)) return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, hide(member)]));
  return typeof value === 'string' && value.length > 500 ? `${masked} (${value.length} characters)` : masked;
}
