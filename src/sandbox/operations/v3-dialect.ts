/**
 * The dialects of v3 answers. Operations answer in `plain`; `toRichAnswer` changes a finished
 * answer into `rich`.
 */

import { z } from 'zod';
import { isObject } from '../../core/json.ts';
import type { Dialect } from '../options.ts';
import type { ClientStore } from '../store/client-store.ts';
import type { Product } from '../store/model.ts';
import { defineResource, type ResourceObject, toPlural } from './v3-resource.ts';

/** A product as lists and included resources show it. */
export const product = defineResource<Product>('product', {
  attributes: { sku: z.string(), name: z.string() },
});

type Members = Readonly<Record<string, unknown>>;
interface Link {
  readonly id: number;
  readonly type: string;
}
interface Relationship {
  readonly data: Link | readonly Link[] | null;
}
/** The ids of the addresses of one order in this dialect, by their ids in `plain`. */
type LocalIds = ReadonlyMap<number, number>;

const isResource = (value: unknown): value is ResourceObject =>
  isObject(value) && 'attributes' in value;

/**
 * Returns a v3 answer in the dialect `rich` (docs/sandbox.md, Dialects).
 * @param position of `included`. Orders always have it inside (docs/interface.md, 2.3 v3 resource
 *   objects).
 */
export function toRichAnswer(
  answer: unknown,
  store: ClientStore,
  position: 'inside' | 'top',
): unknown {
  if (isResource(answer)) return enrich(answer, store);
  if (!isObject(answer) || !('data' in answer)) return answer;
  const {
    data,
    included: atTop = [],
    ...others
  } = answer as Members & { included?: readonly ResourceObject[] };
  const resources = [data].flat() as readonly ResourceObject[];
  const isInside = position === 'inside' || resources[0]?.type === 'order';
  const rich = resources.map(({ included = [], ...resource }) => {
    const localIds = localizeAddresses(resource);
    const shown = enrich(resource, store, localIds);
    return isInside ? { ...shown, included: enrichAll(included, store, localIds) } : shown;
  });
  return {
    data: Array.isArray(data) ? rich : rich[0],
    ...(isInside ? {} : { included: enrichAll(atTop, store, new Map()) }),
    ...others,
  };
}

/**
 * Returns an entry of `/_sandbox/state` in the dialect `rich`. Other members than resources stay as
 * they are.
 */
export function toRichEntry(entry: Members, store: ClientStore): Members {
  if (!isResource(entry.resource)) return entry;
  const localIds = localizeAddresses(entry.resource);
  const enrichMember = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(enrichMember);
    return isResource(value) ? enrich(value, store, localIds) : value;
  };
  return Object.fromEntries(
    Object.entries(entry).map(([name, value]) => [name, enrichMember(value)]),
  );
}

/** Returns the relationships of a resource as answers in a dialect show them. */
export function showRelationships(
  resource: ResourceObject,
  store: ClientStore,
  dialect: Dialect,
): Members {
  const shown =
    dialect === 'plain' ? resource : enrich(resource, store, localizeAddresses(resource));
  return shown.relationships ?? {};
}

function localizeAddresses({ relationships }: ResourceObject): LocalIds {
  const roles = ['deliveryAddress', 'billingAddress'].map(
    (name) => relationships?.[name] as { data: Link } | undefined,
  );
  return new Map(
    roles.flatMap((role, index) => (role === undefined ? [] : [[role.data.id, index + 1]])),
  );
}

/** Returns included resources in the dialect, followed by the products that they refer to. */
function enrichAll(
  included: readonly ResourceObject[],
  store: ClientStore,
  localIds: LocalIds,
): ResourceObject[] {
  const skus = new Set(included.map(({ attributes }) => String(attributes.sku)));
  const products = [...skus]
    .flatMap((sku) => store.products.get(sku) ?? [])
    .map((row) => product.render(row, store));
  return [...included, ...products].map((resource) => enrich(resource, store, localIds));
}

function enrich(
  resource: ResourceObject,
  store: ClientStore,
  localIds: LocalIds = new Map(),
): ResourceObject {
  const { type, attributes } = resource;
  const id = type === 'address' ? (localIds.get(resource.id) ?? resource.id) : resource.id;
  const self = `/v3/${toPlural(type)}/${id}`;
  const given = Object.entries(attributes).filter(([, value]) => value !== null);
  const relationships = Object.entries(addProduct(resource, store)).map(([name, relationship]) => [
    name,
    enrichRelationship(relationship as Relationship, `${self}/${name}`, id, localIds),
  ]);
  return {
    id,
    type,
    attributes: Object.fromEntries(given),
    ...(relationships.length > 0 && { relationships: Object.fromEntries(relationships) }),
    links: { self },
  };
}

/**
 * Returns the relationships of a resource. Items of slips get one to their product, which `plain`
 * does not show.
 */
function addProduct(
  { type, attributes, relationships = {} }: ResourceObject,
  store: ClientStore,
): Members {
  if (type !== 'inboundPackingSlipItem') return relationships;
  const id = store.products.get(String(attributes.sku))?.id;
  return { ...relationships, product: { data: id === undefined ? null : { id, type: 'product' } } };
}

/** Returns a relationship with its link. An absent one is `null` in resources with an even id. */
function enrichRelationship(
  { data }: Relationship,
  related: string,
  ownerId: number,
  localIds: LocalIds,
): unknown {
  if (data === null) return ownerId % 2 === 0 ? null : { data: null, links: { related } };
  const toLocal = ({ id, type }: Link): Link => ({
    id: type === 'address' ? (localIds.get(id) ?? id) : id,
    type,
  });
  return {
    data: Array.isArray(data) ? data.map(toLocal) : toLocal(data as Link),
    links: { related },
  };
}
