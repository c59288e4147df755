/**
 * The schemas and parts of resources in answers. A resource has the same shape in a list and in a document with one
 * resource.
 */

import { z } from 'zod';

/** A v3 resource object (docs/interface.md, 2.3 v3 resource objects). */
export interface ResourceObject {
  readonly id: number;
  readonly type: string;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly relationships?: Readonly<Record<string, unknown>>;
  readonly included?: readonly ResourceObject[];
}

export const linkOne = (type: string, id: number) => ({ data: { id, type } });
export const linkOneOrNone = (type: string, id: number | null) => ({ data: id === null ? null : { id, type } });
export const linkMany = (type: string, ids: readonly number[]) => ({ data: ids.map((id) => ({ id, type })) });

const identifierSchema = (type: string) => z.strictObject({ id: z.int(), type: z.literal(type) });
export const toOne = (type: string) => z.strictObject({ data: identifierSchema(type) });
export const toOneOrNone = (type: string) => z.strictObject({ data: identifierSchema(type).nullable() });
export const toMany = (type: string) => z.strictObject({ data: z.array(identifierSchema(type)) });

/** Returns the schema of a resource in answers. */
export function resourceSchema<A extends z.ZodRawShape>(
  type: string,
  attributes: A,
  relationships: z.ZodRawShape | null,
  included?: z.ZodType,
) {
  return z.strictObject({
    id: z.int(),
    type: z.literal(type),
    attributes: z.strictObject(attributes),
    ...(relationships === null ? {} : { relationships: z.strictObject(relationships) }),
    ...(included === undefined ? {} : { included: z.array(included).optional() }),
  });
}

/**
 * docs/interface.md does not show the members of `links`. This accepts every form that the switch `links` can select.
 */
const linksSchema = z.strictObject({
  next: z.union([z.string(), z.strictObject({ href: z.string() }), z.null()]).optional(),
});

/** Returns the schema of an answer with one resource. */
export const documentSchema = (resource: z.ZodType, included?: z.ZodType) =>
  z.strictObject({ data: resource, ...(included === undefined ? {} : { included: z.array(included).optional() }) });

/** Returns the schema of a page of a list. */
export const pageSchema = (resource: z.ZodType, included?: z.ZodType) =>
  z.strictObject({
    data: z.array(resource).max(100),
    links: linksSchema,
    ...(included === undefined ? {} : { included: z.array(included).optional() }),
  });

export const text = z.string().nullable();
/** A day, YYYY-MM-DD. */
export const date = z.iso.date();
/** A shipment time: seven digits of a second, without a zone. */
export const localDateTime = z.iso.datetime({ local: true, precision: 7 });
/** An inbound time, which ends in Z. */
export const zuluDateTime = z.iso.datetime();
export const decimal = z.union([z.number(), z.string().regex(/^-?\d+(\.\d+)?$/, 'must be a decimal')]);
export const metadata = z.record(z.string(), z.unknown());
