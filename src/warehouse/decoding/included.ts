import { isDeepStrictEqual } from 'node:util';
import { isObject, type Json } from '../../core/json.ts';
import { type Resource, readId } from './jsonapi.ts';

/** Included resources by type and id. */
export type IncludedIndex = ReadonlyMap<string, Resource>;

/**
 * Indexes the `included` of a document or of one resource. Entries without type and id are left out. So are different
 * entries with the same type and id: if ids are local to a parent, such an entry could belong to another one.
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
   * True if the parent lists its children and all of them were included. Then stored children beyond these are gone.
   */
  readonly complete: boolean;
}

/**
 * Finds the children of one type of a resource. For orders, `included` is inside the resource; for other resources its
 * position is not shown (docs/interface.md, 2.6 Not shown). So this function searches both places.
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
    const resources = inside.filter((resource): resource is Resource => isObject(resource) && resource.type === type);
    return { resources, complete: false };
  }
  const insideIndex = indexIncluded(inside);
  const found = ids.map((id) => insideIndex.get(toKey(type, id)) ?? onTop.get(toKey(type, id)));
  const resources = found.filter((resource) => resource !== undefined);
  return { resources, complete: resources.length === found.length };
}

/**
 * Returns a resource with all its included resources inside it: its own, and those of the document that it refers to.
 */
export function addIncluded(resource: Json, onTop: IncludedIndex): Json {
  if (!isObject(resource) || onTop.size === 0 || !isObject(resource.relationships)) return resource;
  const links = Object.values(resource.relationships).flatMap((relation) => (isObject(relation) ? relation.data : []));
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
