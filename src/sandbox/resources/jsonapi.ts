/**
 * How the sandbox shows its rows as resources. A resource looks the same in a list and alone.
 */

import { z } from 'zod';

/** A v3 resource object (interface.md, Conventions). */
export interface ResourceObject {
  readonly id: number;
  readonly type: string;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly relationships?: Readonly<Record<string, unknown>>;
  readonly included?: readonly ResourceObject[];
}

export const one = (type: string, id: number) => ({ data: { id, type } });
export const oneOrNone = (type: string, id: number | null) => ({ data: id === null ? null : { id, type } });
export const many = (type: string, ids: readonly number[]) => ({ data: ids.map((id) => ({ id, type })) });

const identifier = (type: string) => z.strictObject({ id: z.int(), type: z.literal(type) });
export const toOne = (type: string) => z.strictObject({ data: identifier(type) });
export const toOneOrNone = (type: string) => z.strictObject({ data: identifier(type).nullable() });
export const toMany = (type: string) => z.strictObject({ data: z.array(identifier(type)) });

/** What a resource of one type looks like in answers. */
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

/** Members of `links` are not shown: every shape that a switch can ask for. */
const links = z.strictObject({
  next: z.union([z.string(), z.strictObject({ href: z.string() }), z.null()]).optional(),
});

/** An answer with one resource. */
export const documentOf = (resource: z.ZodType, included?: z.ZodType) =>
  z.strictObject({ data: resource, ...(included === undefined ? {} : { included: z.array(included).optional() }) });

/** A page of a list. */
export const pageOf = (resource: z.ZodType, included?: z.ZodType) =>
  z.strictObject({
    data: z.array(resource).max(100),
    links,
    ...(included === undefined ? {} : { included: z.array(included).optional() }),
  });

export const text = z.string().nullable();
/** A day, YYYY-MM-DD. */
export const date = z.iso.date();
/** Without a zone, with a fraction of seven digits: as shipment times are written. */
export const localDateTime = z.iso.datetime({ local: true, precision: 7 });
/** In Z: as inbound times are written. */
export const zuluDateTime = z.iso.datetime();
export const decimal = z.union([z.number(), z.string().regex(/^-?\d+(\.\d+)?$/, 'must be a decimal')]);
export const metadata = z.record(z.string(), z.unknown());
