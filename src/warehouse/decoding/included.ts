import { isObject, type Json } from '../../core/json.ts';
import { type Resource, readId } from './jsonapi.ts';

/** Included resources by type and id. */
export type IncludedIndex = ReadonlyMap<string, Resource>;

/** Indexes the `included` of a document or of one resource; what is no resource with type and id is left out. */
export function indexIncluded(included: readonly Json[]): IncludedIndex {
  const index = new Map<string, Resource>();
  for (const resource of included) {
    const id = readId(resource);
    if (isObject(resource) && typeof resource.type === 'string' && id !== null)
      index.set(keyOf(resource.type, id), resource);
  }
  return index;
}

/** The children of one resource, wherever they stood. */
export interface Children {
  readonly resources: readonly Resource[];
  /** True only where the parent lists its children and every one of them was included: others are gone then. */
  readonly complete: boolean;
}

/**
 * Finds a resource's children of one type. interface.md shows `included` inside the resource for orders and leaves it
 * open for shipments, so both places are looked at.
 * @param ids what the parent's relationship lists, null where it does not say
 * @param onTop the document's own included
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
  const own = indexIncluded(inside);
  const found = ids.map((id) => own.get(keyOf(type, id)) ?? onTop.get(keyOf(type, id)));
  const resources = found.filter((resource) => resource !== undefined);
  return { resources, complete: resources.length === found.length };
}

/** A resource with everything that was included for it inside: what it holds itself, and what it names that stands on top. */
export function withAllIncluded(resource: Json, onTop: IncludedIndex): Json {
  if (!isObject(resource) || onTop.size === 0 || !isObject(resource.relationships)) return resource;
  const links = Object.values(resource.relationships).flatMap((relation) => (isObject(relation) ? relation.data : []));
  const named = links.flatMap((link) => {
    const id = link === undefined ? null : readId(link);
    const type = isObject(link) && typeof link.type === 'string' ? link.type : null;
    const found = type !== null && id !== null ? onTop.get(keyOf(type, id)) : undefined;
    return found === undefined ? [] : [found];
  });
  const inside = Array.isArray(resource.included) ? resource.included : [];
  return named.length === 0 ? resource : { ...resource, included: [...inside, ...named] };
}

function keyOf(type: string, id: number): string {
  return `${type} ${id}`;
}
