/** The dialects of v3 answers. Operations answer in `plain`; `toRichAnswer` changes a finished answer into `rich`. */

import { z } from 'zod';
import type { Dialect } from '../options.ts';
import type { ClientStore } from '../store/client-store.ts';
import type { Product } from '../store/model.ts';
import { defineResource, type ResourceObject, toPlural } from './v3-resource.ts';

/** A product as lists and included resources show it. */
export const product = defineResource<Product>('product', { attributes: { sku: z.string(), name: z.string() } });

type Members = Readonly<Record<string, unknown>>;
interface Relationship {
  readonly data: Link | readonly Link[] | null;
}
interface Link {
  readonly id: number;
  readonly type: string;
}
interface RichAnswerOptions {
  readonly store: ClientStore;
  /** The position of `included`. Orders always have it inside (docs/interface.md, 2.3 v3 resource objects). */
  readonly included: 'inside' | 'top';
}

const localIds = { deliveryAddress: 1, billingAddress: 2 } as const;
const isResource = (value: unknown): value is ResourceObject =>
  typeof value === 'object' && value !== null && 'attributes' in value;

/** Returns a v3 answer in the dialect `rich` (docs/sandbox.md, Dialects). */
export function toRichAnswer(answer: unknown, options: RichAnswerOptions): unknown {
  if (isResource(answer)) return enrich(answer, options.store);
  if (typeof answer !== 'object' || answer === null || !('data' in answer)) return answer;
  const { data, included = [], ...others } = answer as Members & { included?: readonly ResourceObject[] };
  const resources = (Array.isArray(data) ? data : [data]) as readonly ResourceObject[];
  const isInside = options.included === 'inside' || resources[0]?.type === 'order';
  const rich = resources.map((resource) => enrichWithIncluded(resource, options.store, isInside));
  return {
    data: Array.isArray(data) ? rich : rich[0],
    ...(isInside ? {} : { included: enrichAll(included, options.store, new Map()) }),
    ...others,
  };
}

/** Returns an entry of `/_sandbox/state` in the dialect `rich`. Other members than resources stay as they are. */
export function toRichEntry(entry: Members, store: ClientStore): Members {
  if (!isResource(entry.resource)) return entry;
  const addressIds = localizeAddresses(entry.resource);
  const rich = Object.entries(entry).map(([name, value]) => {
    const isList = Array.isArray(value) && value.every(isResource);
    return [name, isList ? value.map((resource) => enrich(resource, store, addressIds)) : value];
  });
  return { ...Object.fromEntries(rich), resource: enrich(entry.resource, store, addressIds) };
}

/** Returns the relationships of a resource as answers in a dialect show them. */
export function showRelationships(resource: ResourceObject, store: ClientStore, dialect: Dialect): Members {
  const shown = dialect === 'plain' ? resource : enrich(resource, store, localizeAddresses(resource));
  return shown.relationships ?? {};
}

function localizeAddresses({ relationships = {} }: ResourceObject): ReadonlyMap<number, number> {
  const ids = Object.entries(localIds).flatMap(([name, localId]): [number, number][] => {
    const address = relationships[name] as { data: Link } | undefined;
    return address === undefined ? [] : [[address.data.id, localId]];
  });
  return new Map(ids);
}

function enrichWithIncluded(resource: ResourceObject, store: ClientStore, isInside: boolean): ResourceObject {
  const addressIds = localizeAddresses(resource);
  const { included = [], ...alone } = resource;
  const rich = enrich(alone, store, addressIds);
  return isInside ? { ...rich, included: enrichAll(included, store, addressIds) } : rich;
}

/** Returns included resources in the dialect, followed by the products that they refer to. */
function enrichAll(
  included: readonly ResourceObject[],
  store: ClientStore,
  addressIds: ReadonlyMap<number, number>,
): ResourceObject[] {
  const products = new Map<number, ResourceObject>();
  for (const { attributes } of included) {
    const row = store.products.get(String(attributes.sku));
    if (row !== undefined) products.set(row.id, product.render(row, store));
  }
  return [...included, ...products.values()].map((resource) => enrich(resource, store, addressIds));
}

function enrich(
  resource: ResourceObject,
  store: ClientStore,
  addressIds: ReadonlyMap<number, number> = new Map(),
): ResourceObject & { links: Members } {
  const { type, attributes } = resource;
  const id = type === 'address' ? (addressIds.get(resource.id) ?? resource.id) : resource.id;
  const self = `/v3/${toPlural(type)}/${id}`;
  const given = Object.entries(attributes).filter(([, value]) => value !== null);
  const relationships = Object.entries(addProduct(resource, store)).map(([name, relationship]) => [
    name,
    enrichRelationship(relationship as Relationship, `${self}/${name}`, id, addressIds),
  ]);
  return {
    id,
    type,
    attributes: Object.fromEntries(given),
    ...(relationships.length > 0 && { relationships: Object.fromEntries(relationships) }),
    links: { self },
  };
}

/** Returns the relationships of a resource. Items of slips get one to their product, which `plain` does not show. */
function addProduct({ type, attributes, relationships = {} }: ResourceObject, store: ClientStore): Members {
  if (type !== 'inboundPackingSlipItem') return relationships;
  const id = store.products.get(String(attributes.sku))?.id;
  return { ...relationships, product: { data: id === undefined ? null : { id, type: 'product' } } };
}

/** Returns a relationship with its link. An absent one is `null` in resources with an even id. */
function enrichRelationship(
  { data }: Relationship,
  related: string,
  ownerId: number,
  addressIds: ReadonlyMap<number, number>,
): Members | null {
  if (data === null) return ownerId % 2 === 0 ? null : { data: null, links: { related } };
  const toLocal = ({ id, type }: Link): Link => ({ id: type === 'address' ? (addressIds.get(id) ?? id) : id, type });
  return { data: Array.isArray(data) ? data.map(toLocal) : toLocal(data as Link), links: { related } };
}
