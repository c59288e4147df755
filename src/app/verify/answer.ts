import { isObject, type Json } from '../../core/json.ts';
import type { JsonAnswer } from '../../warehouse/transport/raw-client.ts';

/** An object of an answer, as received. */
export type JsonObject = { readonly [member: string]: Json };

/** Returns true for a 2xx answer. */
export const isDone = ({ status }: JsonAnswer): boolean => status >= 200 && status < 300;

/** Returns true if the answer says that the path or the method does not exist. */
export const isNoRoute = (answer: JsonAnswer): boolean =>
  [404, 405, 501].includes(answer.status) && readEnvelope(answer) === null;

/** Returns the envelope of an answer (docs/interface.md, 2.2 Envelope), or null if it is none. */
export function readEnvelope({ json }: JsonAnswer): { readonly isOk: boolean; readonly result: Json } | null {
  if (!isObject(json) || (json.messageCode !== 'OK' && json.messageCode !== 'NOK')) return null;
  return { isOk: json.messageCode === 'OK', result: json.result ?? null };
}

/** Returns `errors[]` of JSON:API, or null. */
export function readErrors({ json }: JsonAnswer): readonly Json[] | null {
  return isObject(json) && Array.isArray(json.errors) ? json.errors : null;
}

/** Returns the resources of a document, or null if it has no `data`. */
export function readData({ json }: JsonAnswer): JsonObject[] | null {
  const data = isObject(json) ? json.data : undefined;
  if (Array.isArray(data)) return data.filter(isObject);
  return isObject(data) ? [data] : null;
}

/** Returns the resources that are included in a document, inside its resources or at its top. */
export function readIncluded(answer: JsonAnswer): { readonly inside: JsonObject[]; readonly top: JsonObject[] } {
  const { json } = answer;
  const list = (value: Json | undefined) => (Array.isArray(value) ? value.filter(isObject) : []);
  return {
    inside: (readData(answer) ?? []).flatMap(({ included }) => list(included)),
    top: isObject(json) ? list(json.included) : [],
  };
}

/** Returns a member of a resource's attributes. */
export function readAttribute(resource: JsonObject | undefined, name: string): Json | undefined {
  return isObject(resource?.attributes) ? resource.attributes[name] : undefined;
}

/** Returns the ids that a relationship of a resource names. */
export function readRelated(resource: JsonObject | undefined, name: string): number[] {
  const relationship = isObject(resource?.relationships) ? resource.relationships[name] : undefined;
  const data = isObject(relationship) ? relationship.data : undefined;
  const linked = Array.isArray(data) ? data : data === undefined ? [] : [data];
  return linked.flatMap((one) => (isObject(one) ? (readNumber(one.id) ?? []) : []));
}

/** Reads a number, or the digits of one. Returns null for anything else. */
export function readNumber(value: Json | undefined): number | null {
  const number = typeof value === 'string' && /^\d{1,15}$/.test(value) ? Number(value) : value;
  return typeof number === 'number' && Number.isSafeInteger(number) ? number : null;
}

/** Describes an answer without a word of its body. */
export function describeAnswer(answer: JsonAnswer): string {
  const { status, json } = answer;
  const envelope = readEnvelope(answer);
  const errors = readErrors(answer);
  const form =
    json === undefined
      ? 'without JSON'
      : envelope !== null
        ? `with an envelope that says ${envelope.isOk ? 'OK' : 'NOK'}`
        : errors !== null
          ? `with ${errors.length} JSON:API ${errors.length === 1 ? 'error' : 'errors'}`
          : 'with JSON';
  return `${status} ${form}`;
}
