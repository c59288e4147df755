import { z } from 'zod';
import { undecodableAnswer } from '../../../../core/errors.ts';
import { isObject, parseExact } from '../../../../core/json.ts';
import { findChildren } from '../../../../warehouse/decoding/included.ts';
import { decodeWith, type Resource, toMany } from '../../../../warehouse/decoding/jsonapi.ts';
import { orderItemSchema } from '../../../../warehouse/decoding/v3-orders.ts';

const metaSchema = z.looseObject({ modified: z.boolean(), modifiedItems: toMany.optional() });

/** Lines of an order, as far as they can be read. */
export function linesOf(resource: Resource): { id: number; sku: string | null; quantity: number | null }[] {
  return findChildren(resource, 'orderItem', null, new Map()).resources.flatMap((item) => {
    const read = decodeWith(orderItemSchema, item);
    if ('problem' in read) return [];
    const { id, attributes } = read.value;
    return [{ id, sku: attributes.sku, quantity: attributes.quantity }];
  });
}

/** `meta` of a cancellation, of a document that was read already (interface.md, DELETE /v3/orders/:id and Cancel orderItem). */
export function readMeta(operation: string, body: string): { modified: boolean; modifiedItems: number[] } {
  const document = parseExact(body);
  const meta = metaSchema.safeParse(isObject(document) ? document.meta : null);
  if (!meta.success) throw undecodableAnswer(`${operation}: the answer does not say what was modified`);
  return { modified: meta.data.modified, modifiedItems: [...(meta.data.modifiedItems ?? [])] };
}
