import { isObject, type Json } from '../../../core/json.ts';
import { maskJson } from '../../../core/personal-data.ts';
import type { AnyKind } from './kind.ts';
import { toPayloadSchema } from './payload.ts';

const masked = '•••';

const plainTypes: ReadonlySet<unknown> = new Set(['string', 'number', 'integer', 'boolean', 'null']);

/** Returns true if a JSON Schema allows only plain values, such as texts and numbers. `type` is one name or several. */
const isPlain = ({ type, const: only }: { [member: string]: Json }) =>
  only !== undefined || (type !== undefined && [type].flat().every((name) => plainTypes.has(name)));

/**
 * Returns a payload without personal data, to be shown. Hides members that the kind's schema marks as personal, and all
 * members that it does not know. The names of members and the lengths of long texts stay visible.
 */
export function maskPayload(kind: AnyKind | undefined, payload: Json): Json {
  return maskBy(kind === undefined ? null : toPayloadSchema(kind), payload);
}

function maskBy(schema: Json | null, value: Json): Json {
  if (value === null) return null;
  if (schema === null || !isObject(schema) || schema['x-personal'] === true) return hide(value);
  const choices = [schema.anyOf, schema.oneOf].find(Array.isArray) ?? null;
  if (choices !== null) {
    // A nullable member is a choice between its schema and null.
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

/**
 * Returns the result of an outbox row without personal data, to be shown. Hides each member that is not known to be
 * harmless: the service may answer with anything, such as documents. The names of members stay visible.
 */
export function maskResult(value: Json): Json {
  if (!isObject(value)) return hide(value);
  const maskMember = (name: string, member: Json): Json => {
    // Our own words.
    if (name === 'note') return member;
    const kept = maskJson({ [name]: member });
    if (!isObject(kept) || !(name in kept)) return hide(member);
    if (isObject(member)) return maskResult(member);
    return Array.isArray(member) && member.some(isObject) ? member.map(maskResult) : (kept[name] ?? null);
  };
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, maskMember(name, member)]));
}

function hide(value: Json): Json {
  if (Array.isArray(value)) return value.map(hide);
  if (isObject(value)) return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, hide(member)]));
  return typeof value === 'string' && value.length > 500 ? `${masked} (${value.length} characters)` : masked;
}
