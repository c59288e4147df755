/**
 * Decoders for the answers of the service, one file per generation. A value that does not fit is named by its path,
 * never quoted.
 */

import { z } from 'zod';
import { makeUndecodableError, type WarehouseError } from '../../core/errors.ts';
import { isObject, type Json, parseExact, ShapeError, toWholeNumber } from '../../core/json.ts';
import { isMissing, readUsual } from './members.ts';

/** A resource as received, not decoded yet. */
export type Resource = { [member: string]: Json };

/**
 * A list or single document (docs/interface.md, 2.3 v3 resource objects). Its resources are decoded later, one by one.
 */
export interface Document {
  readonly data: readonly Json[];
  readonly included: readonly Json[];
  readonly links: Json | undefined;
  /** True if a text in it has \\u escapes, so that it may hold characters that Postgres cannot store. */
  readonly escaped: boolean;
  /** Number of characters of the answer. */
  readonly size: number;
}

/**
 * Maximum number of resources in one answer, because decoding takes time. A page has 100; a list without pages has
 * more.
 */
const maxResources = 20_000;
const noId = 'must be an id: a whole number from 1 to 9007199254740991';

const idForm = /^[1-9]\d{0,15}$/;

/** Reads an id: an integer, or a string of digits, as in path parameters and one answer. Returns null for others. */
function toId(value: unknown): number | null {
  const id = typeof value === 'string' ? (idForm.test(value) ? Number(value) : null) : toWholeNumber(value);
  return typeof id === 'number' && Number.isSafeInteger(id) && id >= 1 ? id : null;
}

/** An id. It is one function and no union of schemas, because a page holds more than a thousand ids. */
export const idSchema = z
  .unknown()
  .optional()
  .transform((value, context) => {
    const id = toId(value);
    if (id !== null) return id;
    context.addIssue({ code: 'custom', message: noId });
    return z.NEVER;
  });

/** Reads the id of a value that may be a resource. Returns null if it has no valid id. */
export function readId(resource: Json): number | null {
  return isObject(resource) ? toId(resource.id) : null;
}

const linkage = z.object({ id: idSchema, type: z.string() });

/** Returns the id of a link as the service usually sends it; undefined for any other value. */
function readLink(link: unknown): number | undefined {
  return isObject(link) && typeof link.type === 'string' ? (toId(link.id) ?? undefined) : undefined;
}

/** A relationship to one resource: its id, or null if there is none. */
export const toOne = readUsual(
  z
    .object({ data: linkage.nullish() })
    .nullish()
    .transform((relationship) => relationship?.data?.id ?? null),
  (value) =>
    isMissing(value) ? null : isObject(value) ? (isMissing(value.data) ? null : readLink(value.data)) : undefined,
);

/** A relationship to several resources: their ids, or null if the resource does not list them. */
export const toMany = readUsual(
  z
    .object({ data: z.array(linkage).nullish() })
    .nullish()
    .transform((relationship) => relationship?.data?.map(({ id }) => id) ?? null),
  (value) => {
    if (isMissing(value)) return null;
    if (!isObject(value) || !Array.isArray(value.data)) return undefined;
    const ids = value.data.map(readLink).filter((id) => id !== undefined);
    return ids.length === value.data.length ? ids : undefined;
  },
);

/**
 * Decodes a v3 document, without its resources.
 * @throws WarehouseError `undecodable` if the body is not a valid document; then nothing of it may be used
 */
export function decodeDocument(operation: string, body: string, shape: 'list' | 'single'): Document {
  let document: Json;
  try {
    document = parseExact(body);
  } catch (cause) {
    if (!(cause instanceof SyntaxError)) throw cause;
    throw makeDocumentError(operation, cause instanceof ShapeError ? cause.message : 'is not valid JSON');
  }
  if (!isObject(document)) throw makeDocumentError(operation, 'is not an object');
  const { data, included, links } = document;
  if (shape === 'list' ? !Array.isArray(data) : !isObject(data)) {
    throw makeDocumentError(operation, `has no data ${shape === 'list' ? 'array' : 'object'}`);
  }
  if (included !== undefined && included !== null && !Array.isArray(included)) {
    throw makeDocumentError(operation, 'has a member included that is not an array');
  }
  if (Array.isArray(data) && data.length > maxResources)
    throw makeDocumentError(operation, `holds more than ${maxResources} resources`);
  return {
    data: Array.isArray(data) ? data : [data as Json],
    included: included ?? [],
    links,
    escaped: body.includes('\\u'),
    size: body.length,
  };
}

function makeDocumentError(operation: string, what: string): WarehouseError {
  return makeUndecodableError(`${operation}: the answer ${what}`);
}

/** The reason why a resource cannot be decoded, and the path of the member at fault. It quotes no value. */
export interface DecodingProblem {
  readonly path: string;
  readonly reason: string;
}

/** Values that `decodeKept` has decoded, by the resource object and the schema. */
const keptValues = new WeakMap<object, Map<z.ZodType, unknown>>();

/** Decodes one resource with a schema. If that fails, it returns the problem with the first member at fault. */
export function decodeWith<T>(schema: z.ZodType<T>, resource: Json): { value: T } | { problem: DecodingProblem } {
  const kept = isObject(resource) ? keptValues.get(resource)?.get(schema) : undefined;
  if (kept !== undefined) return { value: kept as T };
  const result = schema.safeParse(resource);
  if (result.success) return { value: result.data };
  const issue = result.error.issues[0];
  return { problem: { path: issue?.path.join('.') ?? '', reason: issue?.message ?? 'cannot be decoded' } };
}

/**
 * Decodes as `decodeWith` does, and keeps the value as long as the resource object exists. Use it for an answer that is
 * decoded again, for its result and for the tables.
 */
export function decodeKept<T>(schema: z.ZodType<T>, resource: Json): ReturnType<typeof decodeWith<T>> {
  const decoded = decodeWith(schema, resource);
  if (!isObject(resource) || 'problem' in decoded) return decoded;
  const values = keptValues.get(resource) ?? new Map<z.ZodType, unknown>();
  keptValues.set(resource, values.set(schema, decoded.value));
  return decoded;
}
