import { z } from 'zod';
import { makeUndecodableError } from '../../../../core/errors.ts';
import { isObject, parseExact } from '../../../../core/json.ts';
import { findChildren } from '../../../../warehouse/decoding/included.ts';
import { decodeKept, type Resource, toMany } from '../../../../warehouse/decoding/jsonapi.ts';
import { orderItemSchema } from '../../../../warehouse/decoding/v3.ts';

const metaSchema = z.looseObject({ modified: z.boolean(), modifiedItems: toMany.optional() });

/** Returns the lines of an order. Skips lines that cannot be read. */
export function readLines(resource: Resource): { id: number; sku: string | null; quantity: number | null }[] {
  return findChildren(resource, 'orderItem', null, new Map()).resources.flatMap((item) => {
    const read = decodeKept(orderItemSchema, item);
    if ('problem' in read) return [];
    const { id, attributes } = read.value;
    return [{ id, sku: attributes.sku, quantity: attributes.quantity }];
  });
}

/**
 * Returns `meta` from the answer to a cancellation (docs/interface.md, 7.8 Cancel and 8.2 Operations).
 * @throws WarehouseError `undecodable` if the answer has no such `meta`
 */
export function readMeta(operation: string, body: string): { modified: boolean; modifiedItems: number[] } {
  const document = parseExact(body);
  const meta = metaSchema.safeParse(isObject(document) ? document.meta : null);
  if (!meta.success) throw makeUndecodableError(`${operation}: the answer does not say what was modified`);
  return { modified: meta.data.modified, modifiedItems: [...(meta.data.modifiedItems ?? [])] };
}
