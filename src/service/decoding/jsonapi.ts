/**
 * This folder: decoders for the answers of the service, one file per generation. A value that does
 * not fit is named by its path, never quoted.
 */

import { isDeepStrictEqual } from 'node:util';
import { makeUndecodableError, type WarehouseError } from '../../core/errors.ts';
import {
  isObject,
  type Json,
  mayBeUnstorable,
  parseExact,
  ShapeError,
  toWholeNumber,
} from '../../core/json.ts';

/** A resource as received, not decoded yet. */
export type Resource = { [member: string]: Json };

/**
 * A list or single document (docs/interface.md, 2.3 v3 resource objects). Its resources are decoded
 * later, one by one.
 */
export interface Document {
  readonly data: readonly Json[];
  readonly included: readonly Json[];
  readonly links: Json | undefined;
  /** True if it may hold characters or numbers that Postgres cannot store. */
  readonly escaped: boolean;
  /** Number of characters of the answer. */
  readonly size: number;
}

/**
 * Maximum number of resources in one answer, because decoding takes time. A page has 100; a list
 * without pages has more.
 */
const maxResources = 20_000;

const idForm = /^[1-9]\d{0,15}$/;

/**
 * Reads an id: an integer, or a string of digits, as in path parameters and one answer. Returns
 * null for others.
 */
export function toId(value: unknown): number | null {
  const isDigits = typeof value === 'string' && idForm.test(value);
  const id = isDigits ? Number(value) : toWholeNumber(value);
  return typeof id === 'number' && Number.isSafeInteger(id) && id >= 1 ? id : null;
}

/** Reads the id of a value that may be a resource. Returns null if it has no valid id. */
export function readId(resource: Json): number | null {
  return isObject(resource) ? toId(resource.id) : null;
}

/**
 * Decodes a v3 document, without its resources.
 * @throws WarehouseError `undecodable` if the body is not a valid document; then nothing of it may
 *   be used
 */
export function decodeDocument(
  operation: string,
  body: string,
  shape: 'list' | 'single',
): Document {
  let document: Json;
  try {
    document = parseExact(body);
  } catch (cause) {
    if (!(cause instanceof SyntaxError)) throw cause;
    const problem = cause instanceof ShapeError ? cause.message : 'is not valid JSON';
    throw makeDocumentError(operation, problem);
  }

  if (!isObject(document)) throw makeDocumentError(operation, 'is not an object');

  const { data, included, links } = document;
  if (shape === 'list' && !Array.isArray(data))
    throw makeDocumentError(operation, 'has no data array');
  if (shape === 'single' && !isObject(data))
    throw makeDocumentError(operation, 'has no data object');
  if (included !== undefined && included !== null && !Array.isArray(included))
    throw makeDocumentError(operation, 'has a member included that is not an array');
  if (Array.isArray(data) && data.length > maxResources)
    throw makeDocumentError(operation, `holds more than ${maxResources} resources`);

  return {
    data: Array.isArray(data) ? data : [data as Json],
    included: included ?? [],
    links,
    escaped: mayBeUnstorable(body),
    size: body.length,
  };
}

function makeDocumentError(operation: string, what: string): WarehouseError {
  return makeUndecodableError(`${operation}: the answer ${what}`, operation);
}

/**
 * The reason why a resource cannot be decoded, and the path of the member at fault. It quotes no
 * value.
 */
export interface DecodingProblem {
  readonly path: string;
  readonly reason: string;
}

/** Included resources by type and id. */
export type IncludedIndex = ReadonlyMap<string, Resource>;

/**
 * Indexes the `included` of a document or of one resource. Entries without type and id are left
 * out. So are different entries with the same type and id: if ids are local to a parent, such an
 * entry could belong to another one.
 */
export function indexIncluded(included: readonly Json[]): IncludedIndex {
  const index = new Map<string, Resource>();
  const ambiguous = new Set<string>();

  for (const resource of included) {
    const id = readId(resource);
    if (!isObject(resource) || typeof resource.type !== 'string' || id === null) continue;

    const key = toKey(resource.type, id);
    const known = index.get(key);
    if (known !== undefined && !isDeepStrictEqual(known, resource)) ambiguous.add(key);
    index.set(key, resource);
  }

  for (const key of ambiguous) index.delete(key);
  return index;
}

/** The children of one resource, no matter where they were included. */
export interface Children {
  readonly resources: readonly Resource[];
  /**
   * True if the parent lists its children and all of them were included. Then stored children
   * beyond these are gone.
   */
  readonly complete: boolean;
}

/**
 * Finds the children of one type of a resource. For orders, `included` is inside the resource; for
 * other resources its position is not shown (docs/interface.md, 2.6 Not shown). So this function
 * searches both places.
 * @param ids the ids in the parent's relationship; null if the parent does not list them
 * @param onTop the `included` of the document
 */
export function findChildren(
  parent: Resource,
  type: string,
  ids: readonly number[] | null,
  onTop: IncludedIndex,
): Children {
  const inside = Array.isArray(parent.included) ? parent.included : [];

  if (ids === null) {
    const resources = inside.filter(
      (resource): resource is Resource => isObject(resource) && resource.type === type,
    );
    return { resources, complete: false };
  }

  const insideIndex = indexIncluded(inside);
  const found = ids.map((id) => insideIndex.get(toKey(type, id)) ?? onTop.get(toKey(type, id)));
  const resources = found.filter((resource) => resource !== undefined);
  return { resources, complete: resources.length === found.length };
}

/**
 * Returns a resource with all its included resources inside it: its own, and those of the document
 * that it refers to.
 */
export function addIncluded(resource: Json, onTop: IncludedIndex): Json {
  if (!isObject(resource) || onTop.size === 0 || !isObject(resource.relationships)) return resource;

  const links = Object.values(resource.relationships).flatMap((relation) =>
    isObject(relation) ? relation.data : [],
  );
  const named = links.flatMap((link) => {
    const id = link === undefined ? null : readId(link);
    const type = isObject(link) && typeof link.type === 'string' ? link.type : null;
    const found = type !== null && id !== null ? onTop.get(toKey(type, id)) : undefined;
    return found === undefined ? [] : [found];
  });

  const inside = Array.isArray(resource.included) ? resource.included : [];
  return named.length === 0 ? resource : { ...resource, included: [...inside, ...named] };
}

function toKey(type: string, id: number): string {
  return `${type} ${id}`;
}
