/**
 * What answers of the service look like, generation by generation. A value that does not fit is named by its path and
 * never quoted.
 */

import { z } from 'zod';
import { undecodableAnswer, type WarehouseError } from '../../core/errors.ts';
import { isObject, type Json, parseExact, ShapeError, wholeIfKept } from '../../core/json.ts';

/** A resource as received, whose members have not been looked at yet. */
export type Resource = { [member: string]: Json };

/** A list or single document (interface.md, Conventions). Its resources are decoded one by one, later. */
export interface Document {
  readonly data: readonly Json[];
  readonly included: readonly Json[];
  readonly links: Json | undefined;
  /** Whether any text in it was written with \\u escapes, and so may hold what Postgres cannot store. */
  readonly escaped: boolean;
  /** Characters of the answer. */
  readonly size: number;
}

/** Pages have 100; a list that is not said to have pages may come whole. Each resource takes its time to be decoded. */
const mostResources = 20_000;
const noId = 'must be an id: a whole number from 1 to 9007199254740991';

/** An id: an integer, or as digits in a string (path parameters and one answer give it so). */
export const idSchema = z.union(
  [
    z.preprocess(wholeIfKept, z.int(noId).min(1, noId)),
    z
      .string(noId)
      .regex(/^[1-9]\d{0,15}$/, noId)
      .transform(Number)
      .pipe(z.int(noId)),
  ],
  noId,
);

/** The id of what may be a resource; null where it cannot be read. */
export function readId(resource: Json): number | null {
  return isObject(resource) ? (idSchema.safeParse(resource.id).data ?? null) : null;
}

const linkage = z.looseObject({ id: idSchema, type: z.string() });

/** A relationship to one resource: its id, or null where there is none. */
export const toOne = z
  .looseObject({ data: linkage.nullish() })
  .nullish()
  .transform((relationship) => relationship?.data?.id ?? null);

/** A relationship to several: their ids, or null where the resource does not say. */
export const toMany = z
  .looseObject({ data: z.array(linkage).nullish() })
  .nullish()
  .transform((relationship) => relationship?.data?.map(({ id }) => id) ?? null);

/**
 * Opens a v3 document.
 * @throws WarehouseError `undecodable` where the body is broken; nothing of such a document may be used
 */
export function decodeDocument(operation: string, body: string, shape: 'list' | 'single'): Document {
  let document: Json;
  try {
    document = parseExact(body);
  } catch (cause) {
    if (!(cause instanceof SyntaxError)) throw cause;
    throw broken(operation, cause instanceof ShapeError ? cause.message : 'is no valid JSON');
  }
  if (!isObject(document)) throw broken(operation, 'is no object');
  const { data, included, links } = document;
  if (shape === 'list' ? !Array.isArray(data) : !isObject(data)) {
    throw broken(operation, `has no data ${shape === 'list' ? 'array' : 'object'}`);
  }
  if (included !== undefined && included !== null && !Array.isArray(included)) {
    throw broken(operation, 'has an included that is no array');
  }
  if (Array.isArray(data) && data.length > mostResources)
    throw broken(operation, `holds more than ${mostResources} resources`);
  return {
    data: Array.isArray(data) ? data : [data as Json],
    included: included ?? [],
    links,
    escaped: body.includes('\\u'),
    size: body.length,
  };
}

function broken(operation: string, what: string): WarehouseError {
  return undecodableAnswer(`${operation}: the answer ${what}`);
}

/** A resource that cannot be decoded: where and why, in words that quote no value. */
export interface Undecodable {
  readonly path: string;
  readonly reason: string;
}

/** Decodes one resource by its schema, or says which member stands in the way. */
export function decodeWith<T>(schema: z.ZodType<T>, resource: Json): { value: T } | { problem: Undecodable } {
  const result = schema.safeParse(resource);
  if (result.success) return { value: result.data };
  const issue = result.error.issues[0];
  return { problem: { path: issue?.path.join('.') ?? '', reason: issue?.message ?? 'cannot be decoded' } };
}
