/**
 * Decoders for the answers of the service, one file per generation. A value that does not fit is named by its path,
 * never quoted.
 */

import { makeUndecodableError, type WarehouseError } from '../../core/errors.ts';
import { isObject, type Json, parseExact, ShapeError, toWholeNumber } from '../../core/json.ts';

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

const idForm = /^[1-9]\d{0,15}$/;

/** Reads an id: an integer, or a string of digits, as in path parameters and one answer. Returns null for others. */
export function toId(value: unknown): number | null {
  const id = typeof value === 'string' ? (idForm.test(value) ? Number(value) : null) : toWholeNumber(value);
  return typeof id === 'number' && Number.isSafeInteger(id) && id >= 1 ? id : null;
}

/** Reads the id of a value that may be a resource. Returns null if it has no valid id. */
export function readId(resource: Json): number | null {
  return isObject(resource) ? toId(resource.id) : null;
}

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
