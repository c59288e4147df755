/**
 * The dialects of v3 answers. Operations answer in `plain`; `toRichAnswer` changes a finished
 * answer into `rich` (docs/sandbox.md, Dialects).
 */

import { z } from 'zod';
import { isObject } from '../../core/json.ts';
import type { Client } from '../store/client.ts';
import type { Product } from '../store/model.ts';
import { defineResource, type ResourceObject, toPlural } from './resource.ts';

/** A product as lists and included resources show it. */
export const product = defineResource<Product>('product', {
  attributes: { sku: z.string(), name: z.string() },
});

interface Link {
  readonly id: number;
  readonly type: string;
}
type Relationship = { readonly data: Link | readonly Link[] | null };
type Relationships = Readonly<Record<string, Relationship>>;

/** Writes the resources of one document. The addresses of an order have local ids. */
class RichWriter {
  readonly #client: Client;
  readonly #localIds = new Map<number, number>();

  constructor(client: Client, owner?: ResourceObject) {
    this.#client = client;
    const { deliveryAddress, billingAddress } = (owner?.relationships ?? {}) as Relationships;
    for (const [index, role] of [deliveryAddress, billingAddress].entries())
      if (role) this.#localIds.set((role.data as Link).id, index + 1);
  }

  write(resource: ResourceObject): ResourceObject {
    const { id, type } = this.#toLocal(resource);
    const self = `/v3/${toPlural(type)}/${id}`;
    const given = Object.entries(resource.attributes).filter(([, value]) => value !== null);
    const links = Object.entries(this.#readRelationships(resource)).map(([name, { data }]) => [
      name,
      this.#writeRelationship(data, `${self}/${name}`, id),
    ]);

    return {
      id,
      type,
      attributes: Object.fromEntries(given),
      ...(links.length > 0 && { relationships: Object.fromEntries(links) }),
      links: { self },
    };
  }

  /** Writes included resources, followed by the products that they refer to. */
  writeIncluded(included: readonly ResourceObject[]): ResourceObject[] {
    const skus = new Set(included.map(({ attributes }) => String(attributes.sku)));
    const products = [...skus].flatMap((sku) => this.#client.products.get(sku) ?? []);
    const rendered = products.map((row) => product.render(row, this.#client));
    return [...included, ...rendered].map((resource) => this.write(resource));
  }

  #toLocal({ id, type }: Link): Link {
    return { id: type === 'address' ? (this.#localIds.get(id) ?? id) : id, type };
  }

  /** Items of slips have a link to their product, which `plain` does not show. */
  #readRelationships({ type, attributes, relationships = {} }: ResourceObject): Relationships {
    if (type !== 'inboundPackingSlipItem') return relationships as Relationships;
    const { id = 0 } = this.#client.products.get(String(attributes.sku)) ?? {};
    return { product: { data: { id, type: 'product' } } };
  }

  /** Writes a relationship with its link. An absent one is `null` in resources with an even id. */
  #writeRelationship(data: Relationship['data'], related: string, ownerId: number): unknown {
    const links = { related };
    if (data === null) return ownerId % 2 === 0 ? null : { data, links };
    const local = [data].flat().map((link) => this.#toLocal(link));
    return { data: Array.isArray(data) ? local : local[0], links };
  }
}

const isResource = (value: unknown): value is ResourceObject =>
  isObject(value) && 'attributes' in value;

interface Answer {
  readonly data: ResourceObject | readonly ResourceObject[];
  readonly included?: readonly ResourceObject[];
}

/**
 * Returns a v3 answer in the dialect `rich`.
 * @param position of `included`. Orders always have it inside (docs/interface.md, 2.3 v3 resource
 *   objects).
 */
export function toRichAnswer(answer: unknown, client: Client, position: 'inside' | 'top'): unknown {
  if (isResource(answer)) return new RichWriter(client, answer).write(answer);
  if (!isObject(answer) || !('data' in answer)) return answer;

  const { data, included: atTop = [], ...others } = answer as unknown as Answer;
  const resources = [data].flat();
  const isInside = position === 'inside' || resources[0]?.type === 'order';
  const rich = resources.map((resource) => {
    const writer = new RichWriter(client, resource);
    const shown = writer.write(resource);
    return isInside ? { ...shown, included: writer.writeIncluded(resource.included ?? []) } : shown;
  });

  return {
    data: Array.isArray(data) ? rich : rich[0],
    ...(!isInside && { included: new RichWriter(client).writeIncluded(atTop) }),
    ...others,
  };
}

/**
 * Returns an entry of `/_sandbox/state` in the dialect `rich`. Other members than resources stay as
 * they are.
 */
export function toRichEntry(
  entry: Readonly<Record<string, unknown>>,
  client: Client,
): Readonly<Record<string, unknown>> {
  if (!isResource(entry.resource)) return entry;

  const writer = new RichWriter(client, entry.resource);
  const writeMember = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(writeMember);
    return isResource(value) ? writer.write(value) : value;
  };
  return Object.fromEntries(
    Object.entries(entry).map(([name, value]) => [name, writeMember(value)]),
  );
}

/** Returns the relationships of a resource as answers in a dialect show them. */
export function showRelationships(
  resource: ResourceObject,
  client: Client,
  isRich: boolean,
): Readonly<Record<string, unknown>> {
  const shown = isRich ? new RichWriter(client, resource).write(resource) : resource;
  return shown.relationships ?? {};
}
